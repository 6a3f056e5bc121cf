# One image for both parts: `control-plane` and `worker` are commands of the same program.
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY protos protos
COPY control_plane control_plane
COPY workers workers
COPY cli cli
RUN python -m venv /opt/slicelease \
    && /opt/slicelease/bin/pip install --no-cache-dir '.[control-plane,worker]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin slicelease
COPY --from=build /opt/slicelease /opt/slicelease
# The example app; your own handlers come in an image built on this one, or mounted here.
WORKDIR /app
COPY examples examples
ENV PATH=/opt/slicelease/bin:$PATH PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER slicelease
EXPOSE 50051 9090
# Both commands handle SIGTERM themselves and start no children, so process 1 needs no init.
ENTRYPOINT ["slicelease"]
CMD ["--help"]
