# syntax=docker/dockerfile:1
# The image that the chart installs: the program, the libraries it is linked against, certificate authorities, and nothing else.
# Every platform that the base has: docker buildx build --platform linux/amd64,linux/arm64 .
# A release pins the base by digest: --build-arg RUST_IMAGE=rust@sha256:…
ARG RUST_IMAGE=rust:1.95-slim-bookworm

FROM ${RUST_IMAGE} AS build
# zstd and others are built from C.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY Cargo.toml Cargo.lock ./
COPY benches benches
COPY crds crds
COPY src src
COPY tests tests
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target,id=target-${TARGETPLATFORM} \
    cargo build --locked --release --bin trawler && install -D -s target/release/trawler /image/usr/bin/trawler
# The loader and the libraries that ldd names, at the paths where the program looks for them.
RUN ldd /image/usr/bin/trawler | grep -o '/[^ )]*' | while read -r library; do install -D "$library" "/image$library"; done \
    && install -D -m 644 /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt \
    && echo 'nonroot:x:65532:65532::/data:/nonexistent' > /image/etc/passwd \
    && echo 'nonroot:x:65532:' > /image/etc/group \
    && echo 'hosts: files dns' > /image/etc/nsswitch.conf \
    && install -d -m 1777 /image/tmp && install -d -o 65532 -g 65532 /image/data

FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="trawler" \
      org.opencontainers.image.description="Keeps a complete, fresh, trustworthy copy of what a federation of catalogues offers" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/trawler-dev/trawler" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image/ /
USER 65532:65532
WORKDIR /data
ENTRYPOINT ["/usr/bin/trawler"]
