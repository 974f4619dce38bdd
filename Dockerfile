# A wheel with the compiled hot path, then an image that holds it and nothing to compile with.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
# Zero: rather no image than one that is slow because nothing could be compiled.
RUN RABBITLIKE_PURE=0 pip wheel --no-cache-dir --wheel-dir /wheels .

FROM python:${PYTHON}-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels rabbitlike \
    && useradd --uid 10001 --home-dir /data --no-create-home rabbitlike && install -d -o rabbitlike -g rabbitlike /data
USER rabbitlike
WORKDIR /data
ENV RABBITLIKE_HOST=0.0.0.0 RABBITLIKE_DATA_DIR=/data
VOLUME /data
EXPOSE 5672 5671 15672
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["python", "-c", \
    "import urllib.request as u; u.urlopen('http://127.0.0.1:15672/api/health/checks/ready-to-serve-clients', timeout=2)"]
ENTRYPOINT ["rabbitlike", "serve"]
