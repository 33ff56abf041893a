# The light install of canarybank, without torch: audits and their pages, on the CPU.
#
#   docker build --tag canarybank .
#   docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/work" canarybank audit my-users.csv
#
# Nothing needs a network at run time: add `--network none`. Keep caches by `--volume canarybank-cache:/cache`.
FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
COPY constraints.txt /wheels/constraints.txt
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir --constraint /wheels/constraints.txt /wheels/canarybank-*.whl && rm -r /wheels
ENV CANARYBANK_CACHE=/cache MPLCONFIGDIR=/tmp/matplotlib HOME=/tmp
RUN mkdir --mode 1777 /cache /work
WORKDIR /work
ENTRYPOINT ["canarybank"]
CMD ["--help"]
