# jetgate serve, for a PostgreSQL of its own container or of elsewhere:
#   docker build -t jetgate .
#   docker run -p 4222:4222 -p 8080:8080 -v ./dsn:/run/secrets/dsn:ro -e JETGATE_DSN_FILE=/run/secrets/dsn jetgate
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/jetgate
COPY pyproject.toml README.md ./
COPY sdks/build_backend.py sdks/generate.py sdks/
COPY core core
COPY gateway gateway
COPY jetgate jetgate
COPY migrations migrations
COPY dropin dropin
RUN /opt/jetgate/bin/pip install --no-cache-dir --disable-pip-version-check .

FROM python:3.13-slim
COPY --from=build /opt/jetgate /opt/jetgate
# No home, no shell, and a number that a `runAsNonRoot` of Kubernetes can check.
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin jetgate
USER 10001:10001
ENV PATH=/opt/jetgate/bin:$PATH PYTHONDONTWRITEBYTECODE=1
EXPOSE 4222 6222 8080
# The process works. /readyz reports whether it can store messages, which is no reason for a restart.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["jetgate"]
CMD ["serve", "--host", "0.0.0.0", "--wait-for-db", "60"]
