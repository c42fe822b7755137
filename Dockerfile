# The sidecar as an image: compiled in the first stage, small and unprivileged in the second.
#
#   docker build -t sidecar .
#   docker run --network host -v $PWD/config/minimal.yaml:/etc/sidecar/sidecar.yaml:ro sidecar
#
# BASE may be any image with Python 3.11 to 3.13 and apt.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
# Two environments: one to build with, and the one that is shipped, which has no pip.
COPY deploy/requirements.lock deploy/requirements-build.lock deploy/
RUN python3 -m venv /opt/build \
    && /opt/build/bin/pip install --no-cache-dir --require-hashes -r deploy/requirements-build.lock \
    && python3 -m venv --without-pip /opt/sidecar \
    && /opt/build/bin/pip --python /opt/sidecar/bin/python install --no-cache-dir \
        --require-hashes -r deploy/requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY deploy/build deploy/build
COPY sidecar sidecar
RUN SIDECAR_COMPILED=1 /opt/build/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation \
        --wheel-dir /wheels . \
    && /opt/build/bin/pip --python /opt/sidecar/bin/python install --no-cache-dir --no-deps \
        /wheels/*.whl \
    && /opt/sidecar/bin/sidecar version

FROM ${BASE}
LABEL org.opencontainers.image.title="sidecar" \
      org.opencontainers.image.description="Routing sidecar for Dubbo and Triple/gRPC consumers" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/sidecar /opt/sidecar
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 20880 50051 15021
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/opt/sidecar/bin/python", "-c", \
    "import urllib.request as u; u.urlopen('http://127.0.0.1:15021/livez', timeout=2)"]
ENTRYPOINT ["/opt/sidecar/bin/sidecar"]
CMD ["run", "--config", "/etc/sidecar/sidecar.yaml"]
