# The image conv-attention-train: docs/kubernetes.md. --build-arg EXTRAS=cuda is for GPUs, EXTRAS=tpu
# for TPUs, EXTRAS=cpu,wandb adds a tracker.
FROM python:3.13.9-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md CHANGELOG.md LICENSE ./
COPY tables tables
COPY configs configs
COPY common_jax common_jax
COPY csan_jax csan_jax
COPY qanet_jax qanet_jax
COPY attconv_jax attconv_jax
COPY launch launch
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM python:3.13.9-slim-bookworm
ARG EXTRAS=cpu
COPY requirements.txt /
COPY --from=build /wheel /wheel
RUN pip install --no-cache-dir uv==0.13.9 \
    && uv pip install --system --no-cache --constraints /requirements.txt "$(ls /wheel/*.whl)[$EXTRAS]"

RUN useradd --uid 10001 --create-home trainer
USER 10001
WORKDIR /home/trainer
ENV PYTHONDONTWRITEBYTECODE=1
ENTRYPOINT ["conv-attention"]
CMD ["--help"]
