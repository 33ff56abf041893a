"""Hold a generator to a ceiling of tokens and money, before it is passed and not after."""

from dataclasses import dataclass

from canarybank.errors import BudgetError, InputError
from canarybank.generate.protocol import Request

__all__ = ["Spending", "SpendingCeiling", "charged", "worst_case"]

# A chat template wraps each message in a few tokens of its own, and some add a system message.
_TEMPLATE_TOKENS = 64
_BYTES_PER_TOKEN = 32
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class SpendingCeiling:
    """How many tokens, and how much money, one generator may spend in its life.

    Prices are per million tokens, in the currency of ``cost``. None leaves a side open.
    """

    tokens: int | None = None
    cost: float | None = None
    prompt_price: float = 0.0
    completion_price: float = 0.0

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 0:
            raise InputError(f"A token ceiling cannot be negative, but it is {self.tokens}.")
        if self.cost is not None and not 0 <= self.cost < float("inf"):
            raise InputError(f"A cost ceiling must be a finite amount of at least 0, but it is {self.cost}.")
        if not (0 <= self.prompt_price < float("inf") and 0 <= self.completion_price < float("inf")):
            raise InputError(
                f"Prices must be finite and not negative, but they are {self.prompt_price} and {self.completion_price}."
            )
        if self.cost is not None and self.prompt_price == self.completion_price == 0:
            raise InputError("A cost ceiling needs the prices per million prompt and completion tokens; give them.")

    def price(self, prompt: int, completion: int) -> float:
        """Return what so many tokens cost."""
        return (prompt * self.prompt_price + completion * self.completion_price) / _MILLION


class Spending:
    """What was spent, and what requests in flight may still spend.

    At every moment, spent plus reserved stays within the ceiling, so the ceiling holds whatever the answers
    in flight turn out to cost (as long as the server keeps to the number of tokens that it was asked for).
    """

    def __init__(self, ceiling: SpendingCeiling | None = None) -> None:
        self.ceiling = ceiling or SpendingCeiling()
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self._prompt_reserved = 0
        self._completion_reserved = 0

    @property
    def tokens(self) -> int:
        """Return the number of tokens spent."""
        return self.prompt_tokens + self.completion_tokens

    @property
    def cost(self) -> float:
        """Return the money spent."""
        return self.ceiling.price(self.prompt_tokens, self.completion_tokens)

    @property
    def in_flight(self) -> bool:
        """Say whether tokens are set aside for requests that have not ended."""
        return self._prompt_reserved + self._completion_reserved > 0

    def fits(self, prompt: int, completion: int) -> bool:
        """Say whether so many tokens more would stay within the ceiling, those reserved counted in."""
        prompt += self.prompt_tokens + self._prompt_reserved
        completion += self.completion_tokens + self._completion_reserved
        within = self.ceiling.tokens is None or prompt + completion <= self.ceiling.tokens
        return within and (self.ceiling.cost is None or self.ceiling.price(prompt, completion) <= self.ceiling.cost)

    def reserve(self, prompt: int, completion: int) -> None:
        """Set tokens aside for a request that is about to be sent."""
        self._prompt_reserved += prompt
        self._completion_reserved += completion

    def settle(self, reserved: tuple[int, int], spent: tuple[int, int]) -> None:
        """Replace what was set aside for a request by what it spent."""
        self._prompt_reserved -= reserved[0]
        self._completion_reserved -= reserved[1]
        self.prompt_tokens += spent[0]
        self.completion_tokens += spent[1]

    def refusal(self, prompt: int, completion: int) -> BudgetError:
        """Return the error of a request that no longer fits."""
        parts = []
        if self.ceiling.tokens is not None:
            parts.append(f"{self.tokens:,} of {self.ceiling.tokens:,} tokens")
        if self.ceiling.cost is not None:
            parts.append(f"{self.cost:.4f} of {self.ceiling.cost:.4f} in money")
        return BudgetError(
            f"The next request may take {prompt + completion:,} tokens and would pass the ceiling: "
            f"{' and '.join(parts)} are spent. "
            "What was answered is kept; raise the ceiling and run the same command to resume."
        )


def worst_case(request: Request) -> tuple[int, int]:
    """Return the most prompt and completion tokens that a request can take: a token holds at least one byte."""
    return _bytes(_sent(request)) + _TEMPLATE_TOKENS, request.tokens


def charged(request: Request, written: str, prompt: int | None, completion: int | None) -> tuple[int, int]:
    """Return the prompt and completion tokens that an answer is charged, given what its server reports.

    A report is believed where it can be true: with at most 32 bytes a token on average, which no vocabulary
    reaches on text. Where there is none, or a smaller one, the answer is charged the worst case of its request.
    """
    worst = worst_case(request)
    return _believed(prompt, _sent(request), worst[0]), _believed(completion, written, worst[1])


def _believed(reported: int | None, text: str, worst: int) -> int:
    least = -(-_bytes(text) // _BYTES_PER_TOKEN)
    return max(worst, least) if reported is None or reported < least else reported


def _sent(request: Request) -> str:
    return request.prompt + (request.system or "") + request.opening


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
