"""Lines of posted NCCL logs: of each version the lines with its choices.

As posted, but for prefixes of mpirun and log collectors, which are cut off, and names of machines, which are cut short
where they are long. The version in a name is what the post says; with OR_NEAR it is told by the form of the lines.
"""

# github.com/vllm-project/vllm/issues/10453 (vLLM 0.6.4 with 2.21.5, 4 x H100)
V2_21_NVLS = """\
h100-2:148:170 [2] NCCL INFO threadThresholds 8/8/64 | 32/8/64 | 512 | 512
h100-2:148:170 [2] NCCL INFO 24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels \
per peer
"""
# github.com/NVIDIA/nccl-tests/issues/252 (2024, 2 x 4 GPUs, an InfiniBand plugin)
V2_20_OR_NEAR_IB = """\
kolyoz1:27224:27909 [2] NCCL INFO Channel 02/0 : 2[2] -> 0[0] via P2P/CUMEM
kolyoz1:27225:27907 [3] NCCL INFO Channel 03/0 : 7[3] -> 3[3] [receive] via NET/IBext_v8/3/GDRDMA
kolyoz1:27225:27907 [3] NCCL INFO Channel 07/0 : 7[3] -> 3[3] [receive] via NET/IBext_v8/3/GDRDMA
kolyoz1:27255:27906 [0] NCCL INFO Channel 00/0 : 4[0] -> 0[0] [receive] via NET/IBext_v8/0/GDRDMA
kolyoz1:27225:27907 [3] NCCL INFO Channel 03/0 : 3[3] -> 7[3] [send] via NET/IBext_v8/3/GDRDMA
kolyoz1:27223:27908 [1] NCCL INFO Connected all trees
kolyoz2:25169:25829 [2] NCCL INFO 8 coll channels, 8 collnet channels, 0 nvls channels, 8 p2p channels, 2 p2p channels \
per peer
"""
# github.com/NVIDIA/nccl/issues/1814 (2025, an InfiniBand plugin without GPUDirect)
IB_WITHOUT_GPUDIRECT = """\
hostname-test:987:1260 [7] NCCL INFO Channel 03/0 : 47[7] -> 39[7] [receive] via NET/IBext_v8/2
hostname-test:983:1261 [3] NCCL INFO Channel 02/0 : 35[3] -> 36[4] via P2P/CUMEM
hostname-test:986:1254 [6] NCCL INFO Connected all rings
"""
# github.com/NVIDIA/nccl/issues/1538 (2.22.3)
V2_22_CUMEM = """\
job-worker-0:5663:5712 [0] NCCL INFO Channel 01/16 :    0   8  15  14  13  12  11  10   9   1   2   3   4   5   6   7
job-worker-0:5663:5809 [0] NCCL INFO Channel 02/0 : 0[0] -> 1[1] via P2P/CUMEM
job-worker-0:5663:5809 [0] NCCL INFO Channel 03/0 : 0[0] -> 1[1] via P2P/CUMEM
job-worker-0:5663:5809 [0] NCCL INFO Channel 04/0 : 0[0] -> 1[1] via P2P/CUMEM
job-worker-0:5663:5809 [0] NCCL INFO Channel 10/0 : 0[0] -> 1[1] via P2P/CUMEM
"""
# github.com/NVIDIA/nccl/issues/1453 (September 2024, 3 x 8 H100: NVLS, then what each all-reduce took)
V2_22_OR_NEAR_NVLS_AND_TUNING = """\
h100clust-worker-1:227602:227792 [0] NCCL INFO NVLS comm 0x5639e9f0e8c0 headRank 0 nHeads 8 buffSize 1048576 \
nvlsPerRankSize 33554432 nvlsTotalSize 268435456
h100clust-worker-1:227602:227792 [0] NCCL INFO Channel 01/0 : 16[0] -> 0[0] [receive] via NET/IBext_v8/7/GDRDMA
h100clust-worker-1:497888:497888 [0] NCCL INFO 8 Bytes -> Algo 0 proto 0 time 25.200924
h100clust-worker-1:497888:497888 [0] NCCL INFO 262144 Bytes -> Algo 0 proto 1 time 54.707825
"""
# github.com/NVIDIA/nccl/issues/1781 (2.27.5: the collnet number is that of coll channels again)
V2_27_CHANNELS = """\
nccl-tests-gdr-2-worker-1:1960519:1960630 [0] NCCL INFO 24 coll channels, 24 collnet channels, 0 nvls channels, \
32 p2p channels, 32 p2p channels per peer
"""
# github.com/NVIDIA/nccl/issues/1936 (2.27.5: the version in a line of its own process)
V2_27_VERSION = "2e5hmh4t0q1th5f:205631:205631 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n"
# github.com/NVIDIA/nccl/issues/1705 (May 2025, CUDA 12.8, 8 x H100 in one process)
V2_26_OR_NEAR_RINGS = """\
bm-h100-02:630335:630409 [2] NCCL INFO Channel 21/0 : 2[2] -> 3[3] via P2P/direct pointer
bm-h100-02:630335:630409 [2] NCCL INFO Channel 22/0 : 2[2] -> 3[3] via P2P/direct pointer
bm-h100-02:630335:630413 [6] NCCL INFO Connected all rings, use ring PXN 0 GDR 1
"""
# github.com/NVIDIA/nccl/issues/1713 (2.27, send and receive over InfiniBand with shared buffers)
V2_27_SHARED = """\
aiplatform-wlf2-ge78-70:102987:103024 [1] NCCL INFO Channel 05/1 : 3[1] -> 0[0] [send] via NET/IB/12/GDRDMA/Shared
aiplatform-wlf2-ge78-70:102986:103025 [0] NCCL INFO Channel 00/1 : 2[0] -> 3[1] via P2P/CUMEM
"""
# github.com/NVIDIA/nccl/issues/1680 (2.25.1: variables that are numbers)
V2_25_VARIABLES = """\
ada6000-02:1263644:1263644 [0] NCCL INFO Comm config Max CTAs set to 32
ada6000-02:1263644:1263644 [0] NCCL INFO NCCL_MIN_CTAS set by environment to 16.
ada6000-02:1263644:1263644 [0] NCCL INFO NCCL_MAX_CTAS set by environment to 16.
"""
# The formats in the library of NCCL 2.29 and later (texts in libnccl.so.2; no log with them was found)
V2_29_OR_LATER_VARIABLES = """\
node-0:188:585 [0] NCCL INFO Parsed environment variable NCCL_CTA_POLICY=EFFICIENCY to 1
node-0:188:585 [0] NCCL INFO Comm config maxCTAs reset to NCCL_MAX_CTAS=8
"""
CTA_POLICY_AS_OPTION = "node-0:188:585 [0] NCCL INFO Comm config CTA policy flags set to 2\n"
# Logs in repositories on GitHub (variables that are texts, and the one with words of its own)
TEXT_VARIABLES = """\
node0:4744:4763 [0] NCCL INFO NCCL_IB_HCA set to rxe0
gpu-dev-aa464b9b:1801:1801 [6] NCCL INFO NCCL_ALGO set by environment to ring,tree
gpu-dev-aa464b9b:1801:1801 [6] NCCL INFO threadThresholds 8/8/64 | 64/8/64 | 512 | 512
"""
# Notes of the project nccl-eBPF (2.29.7, two ranks through sockets; its broadcast and its all-reduce runs)
V2_29_TUNING = """\
NCCL INFO Broadcast:    32768 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..0}
NCCL INFO Broadcast:  1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..3}
NCCL INFO AllReduce: 1024 Bytes -> Algo TREE proto SIMPLE channel{Lo..Hi}={0..0}
NCCL INFO AllReduce: 32768 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}
"""
# PyTorch's docs/source/symmetric_memory.md, without NCCL's prefix
V2_28_OR_NEAR_SYMMETRIC = """\
AllReduce [Symmetric]: 2097152 Bytes -> Kernel AllReduce_RSxLDMC_AGxSTMC nchannels 16 nthreads 512 nWorks 1
"""
# A log posted from a p4d.24xlarge with the plugin of EFA: NCCL's lines, then the plugin's
TUNER_PLUGIN = """\
node-0-0:188:585 [0] NCCL INFO TUNER/Plugin: Plugin name set by env to libnccl-net.so
node-0-0:188:585 [0] NCCL INFO TUNER/Plugin: Failed to find ncclTunerPlugin_v4 symbol.
node-0-0:188:585 [0] NCCL INFO TUNER/Plugin: Using tuner plugin nccl_ofi_tuner
node-0-0:188:585 [0] NCCL INFO NET/OFI NCCL_OFI_TUNER is not available for platform : p4d.24xlarge, Fall back to \
NCCL's tuner
"""
# Another one, without a file of a plugin
NO_TUNER_PLUGIN = """\
node-0-0:152:386 [0] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so. Using internal tuner plugin.
"""
# docs.nvidia.com/deeplearning/nccl/user-guide, Logging (2.30.3)
V2_30_START = """\
NCCL version 2.30.3+cuda13.0
node-01:3873285:3873285 [0] NCCL INFO Initialized NET plugin IB
node-01:3873285:3873285 [0] NCCL INFO Using network IB
"""
# github.com/NVIDIA/nccl-tests/issues/185 (2.19.3, two RoCE ports)
V2_19_ROCE = """\
NCCL version 2.19.3+cuda12.3
dgxh100-4:460770:460842 [0] NCCL INFO NET/IB : Using [0]mlx5_10:1/RoCE [1]mlx5_11:1/RoCE [RO]; OOB enp220s0np0:\
11.1.128.136<0>
dgxh100-4:460770:460842 [0] NCCL INFO Using non-device net plugin version 0
dgxh100-4:460770:460842 [0] NCCL INFO Using network IB
"""
# The format in NCCL's source for ports that are used as one (2.19 to 2.22, src/transport/net_ib.cc)
V2_19_MERGED_PORTS = """\
node-0:188:585 [0] NCCL INFO NET/IB : Using [0]={[0] mlx5_0:1/RoCE, [1] mlx5_1:1/RoCE} [RO]; OOB eth0:10.0.0.1<0>
node-0:188:585 [0] NCCL INFO Using network IB
"""
# github.com/NVIDIA/nccl/issues/707 (2021, InfiniBand with GPUDirect RDMA on every channel)
IB_WITH_GPUDIRECT = """\
10-90-43-152:120890:121560 [0] NCCL INFO Channel 01 : 2[c7000] -> 0[87000] [receive] via NET/IB/5/GDRDMA
10-90-43-152:120890:121561 [1] NCCL INFO Channel 01 : 2[c7000] -> 1[8d000] [receive] via NET/IB/5/GDRDMA
10-90-43-152:120890:121563 [3] NCCL INFO Channel 01 : 3[ca000] -> 2[c7000] [send] via NET/IB/2/GDRDMA
"""
# A comment in a parser of logs on GitHub (RCCL on Frontier, 4096 ranks)
RCCL_OFI = """\
frontier00061:695135:695311 [0] NCCL INFO Channel 03/0 : 0[d6000] -> 2[de000] via P2P/IPC comm 0x9bbf3b0 nRanks 4096
frontier00061:695135:695311 [0] NCCL INFO Channel 00/0 : 4092[d6000] -> 0[d6000] [receive] via NET/AWS Libfabric/2/\
GDRDMA comm 0x9bbf3b0 nRanks 4096
"""
# Two posted logs of the plugin of EFA (without GPUDirect, and a later version, which has another name)
OFI_WITHOUT_GPUDIRECT = """\
compute-gpu-st-distributed-ml-1:7614:7694 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0
compute-gpu-st-distributed-ml-1:7614:7694 [0] NCCL INFO Channel 01/0 : 1[0] -> 0[0] [receive] via NET/AWS Libfabric/0
"""
OFI = """\
llama-3-8b-node-0-0:194:712 [0] NCCL INFO Channel 00/0 : 3[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
llama-3-8b-node-0-0:194:712 [0] NCCL INFO Channel 01/0 : 3[0] -> 0[0] [receive] via NET/Libfabric/0/GDRDMA
llama-3-8b-node-0-0:194:712 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Libfabric/0/GDRDMA
"""
