"""Kernels for numba-cuda."""

import math

from numba import cuda, float32, int32


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] += a * x[i]


def matmul(a, b, c):
    left = cuda.shared.array((16, 16), float32)
    right = cuda.shared.array((16, 16), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.grid(2)
    total = float32(0)
    for step in range((a.shape[1] + 15) // 16):
        left[x, y] = 0
        right[x, y] = 0
        if row < a.shape[0] and step * 16 + y < a.shape[1]:
            left[x, y] = a[row, step * 16 + y]
        if column < b.shape[1] and step * 16 + x < b.shape[0]:
            right[x, y] = b[step * 16 + x, column]
        cuda.syncthreads()
        for k in range(16):
            total += left[x, k] * right[k, y]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def row_sums(x, sums):
    parts = cuda.shared.array(32, float32)
    thread = cuda.threadIdx.x
    total = float32(0)
    for j in range(thread, x.shape[1], cuda.blockDim.x):
        total += x[cuda.blockIdx.x, j]
    distance = 16
    while distance:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, distance)
        distance //= 2
    if thread % 32 == 0:
        parts[thread // 32] = total
    cuda.syncthreads()
    if thread == 0:
        for warp in range(1, cuda.blockDim.x // 32):
            total += parts[warp]
        sums[cuda.blockIdx.x] = total


def histogram(x, counts):
    bins = cuda.shared.array(256, int32)
    thread = cuda.threadIdx.x
    for j in range(thread, 256, cuda.blockDim.x):
        bins[j] = 0
    cuda.syncthreads()
    for j in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, x[j], 1)
    cuda.syncthreads()
    for j in range(thread, 256, cuda.blockDim.x):
        cuda.atomic.add(counts, j, bins[j])


def votes(x, limit, masks):
    i = cuda.grid(1)
    mask = cuda.ballot_sync(0xFFFFFFFF, i < x.size and x[i] > limit)
    if cuda.laneid == 0 and i < x.size:
        masks[i // 32] = cuda.popc(mask)


def transpose(x, y):
    tile = cuda.shared.array((32, 33), float32)
    column = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    row = cuda.blockIdx.y * 32 + cuda.threadIdx.y
    if row < x.shape[0] and column < x.shape[1]:
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = x[row, column]
    cuda.syncthreads()
    row = cuda.blockIdx.x * 32 + cuda.threadIdx.y
    column = cuda.blockIdx.y * 32 + cuda.threadIdx.x
    if row < y.shape[0] and column < y.shape[1]:
        y[row, column] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


def bodies(places, masses, forces):
    i = cuda.grid(1)
    if i >= places.shape[0]:
        return
    x = y = z = 0.0
    for j in range(places.shape[0]):
        dx = places[j, 0] - places[i, 0]
        dy = places[j, 1] - places[i, 1]
        dz = places[j, 2] - places[i, 2]
        inverse = 1.0 / math.sqrt(dx * dx + dy * dy + dz * dz + 1e-9)
        strength = masses[j] * inverse * inverse * inverse
        x += strength * dx
        y += strength * dy
        z += strength * dz
    forces[i, 0] = x
    forces[i, 1] = y
    forces[i, 2] = z


def black_scholes(calls, prices, strikes, times, rate, volatility):
    i = cuda.grid(1)
    if i < prices.size:
        root = math.sqrt(times[i])
        d1 = (math.log(prices[i] / strikes[i]) + (rate + 0.5 * volatility * volatility) * times[i]) / (
            volatility * root
        )
        d2 = d1 - volatility * root
        near = 0.5 * math.erfc(-d1 / math.sqrt(2.0))
        far = 0.5 * math.erfc(-d2 / math.sqrt(2.0))
        calls[i] = prices[i] * near - strikes[i] * math.exp(-rate * times[i]) * far
