# The service. Tags are those of Debian's slim images; a deployment pins them by digest.
FROM python:3.12-slim AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/interleaf-*.whl)[serve,postgres]" \
    && useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin interleaf \
    && install --directory --owner interleaf --mode 700 /data
USER 10001
WORKDIR /data
VOLUME /data
# Compiled kernels stay on the volume, so that only the first start compiles.
ENV INTERLEAF_STORE=/data/interleaf.sqlite NUMBA_CACHE_DIR=/data/compiled PYTHONUNBUFFERED=1
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD \
    ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/livez', timeout=4)"]
# Beyond this machine it answers only with keys, which are made first: docker run ... interleaf keys add admin
CMD ["interleaf", "serve", "--host", "0.0.0.0", "--port", "8080"]
