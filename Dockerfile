# For machines with GPUs and NVIDIA's container toolkit:
#   docker build -t ddp-perf .
#   docker run --rm --gpus all --ipc=host -v "$PWD/baselines:/ddp-perf/baselines" ddp-perf
# Options of pytest follow the name: docker run ... ddp-perf --doctor
FROM pytorch/pytorch:2.11.0-cuda13.0-cudnn9-runtime

# git: for --against REV
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git iproute2 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /ddp-perf
COPY . .
# The image's own torch is kept. Its Python belongs to the image alone.
RUN PIP_BREAK_SYSTEM_PACKAGES=1 pip install --no-cache-dir -e '.[report]' 'torch==2.11.*'

ENTRYPOINT ["pytest", "perf"]
