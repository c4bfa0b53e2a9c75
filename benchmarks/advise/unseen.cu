// Two CUDA C++ programs for the closed loop of advise that advise was not made with; see unseen.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o unseen benchmarks/advise/unseen.cu
//     unseen halo|steer before|after [STEPS]
//
// halo: a stencil whose two faces go to the host row by row, are exchanged there as by MPI, and
// come back row by row; after: packed on the GPU, one pinned copy each way. steer: bodies that
// attract each other, 16 KiB of thrusts in and of places out each 8 steps of them, pageable;
// kernels take nearly all of the time, so that there is nothing to gain and both forms are the
// same.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

// The stencil's grid, x fastest; y = 0 and y = kY - 1 are what the neighbours send.
constexpr int kX = 320, kY = 256, kZ = 96;
constexpr size_t kRow = sizeof(float) * kX;
constexpr int kFace = kX * kZ;

constexpr int kBodies = 24576, kSteered = 1024, kThreads = 128, kMoves = 8;

__host__ __device__ size_t row(int y, int z) {
  return (static_cast<size_t>(z) * kY + y) * kX;
}

__global__ void diffuse(const float* in, float* out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y + 1, z = blockIdx.z;
  if (x >= kX) return;
  const int left = (x + kX - 1) % kX, right = (x + 1) % kX;
  const int below = (z + kZ - 1) % kZ, above = (z + 1) % kZ;
  const float around = in[row(y, z) + left] + in[row(y, z) + right] + in[row(y - 1, z) + x] +
                       in[row(y + 1, z) + x] + in[row(y, below) + x] + in[row(y, above) + x];
  out[row(y, z) + x] = 0.7f * in[row(y, z) + x] + 0.05f * around;
}

__global__ void pack(const float* grid, float* faces) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, z = blockIdx.y, side = blockIdx.z;
  if (x < kX) faces[side * kFace + z * kX + x] = grid[row(side ? kY - 2 : 1, z) + x];
}

__global__ void unpack(float* grid, const float* faces) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, z = blockIdx.y, side = blockIdx.z;
  if (x < kX) grid[row(side ? kY - 1 : 0, z) + x] = faces[side * kFace + z * kX + x];
}

struct Grid {
  float *now, *next, *faces, *sent, *received;

  explicit Grid(bool pinned)
      : sent(host(pinned, 2 * kFace * sizeof(float))),
        received(host(pinned, 2 * kFace * sizeof(float))) {
    const size_t count = row(0, kZ);
    std::vector<float> start(count);
    for (size_t i = 0; i < count; ++i) start[i] = static_cast<float>(i % 1013) / 1013;
    CHECK(cudaMalloc(&now, count * sizeof(float)));
    CHECK(cudaMalloc(&next, count * sizeof(float)));
    CHECK(cudaMalloc(&faces, 2 * kFace * sizeof(float)));
    CHECK(cudaMemcpy(now, start.data(), count * sizeof(float), cudaMemcpyHostToDevice));
  }
};

// The neighbours in y are the grid itself: each side gets what the other one sent.
void exchange(Grid& g) {
  std::memcpy(g.received, g.sent + kFace, kFace * sizeof(float));
  std::memcpy(g.received + kFace, g.sent, kFace * sizeof(float));
}

void rows_to_and_fro(Grid& g) {
  for (int side = 0; side < 2; ++side)
    for (int z = 0; z < kZ; ++z)
      CHECK(cudaMemcpy(g.sent + side * kFace + z * kX, g.now + row(side ? kY - 2 : 1, z), kRow,
                       cudaMemcpyDeviceToHost));
  exchange(g);
  for (int side = 0; side < 2; ++side)
    for (int z = 0; z < kZ; ++z)
      CHECK(cudaMemcpy(g.now + row(side ? kY - 1 : 0, z), g.received + side * kFace + z * kX, kRow,
                       cudaMemcpyHostToDevice));
}

void faces_to_and_fro(Grid& g) {
  const dim3 blocks((kX + 127) / 128, kZ, 2);
  const size_t bytes = 2 * kFace * sizeof(float);
  pack<<<blocks, 128>>>(g.now, g.faces);
  CHECK(cudaMemcpy(g.sent, g.faces, bytes, cudaMemcpyDeviceToHost));
  exchange(g);
  CHECK(cudaMemcpy(g.faces, g.received, bytes, cudaMemcpyHostToDevice));
  unpack<<<blocks, 128>>>(g.now, g.faces);
}

double halo(Grid& g, bool after) {
  if (after)
    faces_to_and_fro(g);
  else
    rows_to_and_fro(g);
  diffuse<<<dim3((kX + 127) / 128, kY - 2, kZ), 128>>>(g.now, g.next);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::swap(g.now, g.next);
  double sum = 0;
  for (int i = 0; i < 2 * kFace; i += 64) sum += g.received[i];
  return sum;
}

__global__ void move(const float4* bodies, float4* moved, float4* speeds, const float4* thrusts) {
  __shared__ float4 tile[kThreads];
  const int i = blockIdx.x * kThreads + threadIdx.x;
  const float4 mine = bodies[i];
  float4 pull = i < kSteered ? thrusts[i] : float4{0, 0, 0, 0};
  for (int first = 0; first < kBodies; first += kThreads) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < kThreads; ++k) {
      const float x = tile[k].x - mine.x, y = tile[k].y - mine.y, z = tile[k].z - mine.z;
      const float inverse = rsqrtf(x * x + y * y + z * z + 0.01f);
      const float force = tile[k].w * inverse * inverse * inverse;
      pull.x += force * x, pull.y += force * y, pull.z += force * z;
    }
    __syncthreads();
  }
  constexpr float kTime = 1e-4f;
  float4 speed = speeds[i];
  speed.x += kTime * pull.x, speed.y += kTime * pull.y, speed.z += kTime * pull.z;
  speeds[i] = speed;
  moved[i] = {mine.x + kTime * speed.x, mine.y + kTime * speed.y, mine.z + kTime * speed.z, mine.w};
}

struct Bodies {
  float4 *now, *next, *speeds, *thrusts;
  std::vector<float4> steering, places;

  Bodies() : steering(kSteered), places(kSteered) {
    std::vector<float4> start(kBodies);
    for (int i = 0; i < kBodies; ++i)
      start[i] = {i % 29 / 29.f, i % 31 / 31.f, i % 37 / 37.f, 1.f / kBodies};
    const size_t bytes = kBodies * sizeof(float4);
    CHECK(cudaMalloc(&now, bytes));
    CHECK(cudaMalloc(&next, bytes));
    CHECK(cudaMalloc(&speeds, bytes));
    CHECK(cudaMalloc(&thrusts, kSteered * sizeof(float4)));
    CHECK(cudaMemcpy(now, start.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(speeds, 0, bytes));
  }
};

double steer(Bodies& b) {
  for (int i = 0; i < kSteered; ++i)
    b.steering[i] = {0.5f - b.places[i].x, 0.5f - b.places[i].y, 0.5f - b.places[i].z, 0};
  const size_t bytes = kSteered * sizeof(float4);
  CHECK(cudaMemcpy(b.thrusts, b.steering.data(), bytes, cudaMemcpyHostToDevice));
  for (int number = 0; number < kMoves; ++number) {
    move<<<kBodies / kThreads, kThreads>>>(b.now, b.next, b.speeds, b.thrusts);
    std::swap(b.now, b.next);
  }
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(b.places.data(), b.now, bytes, cudaMemcpyDeviceToHost));
  double sum = 0;
  for (const float4& place : b.places) sum += place.x + place.y + place.z;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_halo = argc > 1 && !std::strcmp(argv[1], "halo");
  const bool is_steer = argc > 1 && !std::strcmp(argv[1], "steer");
  const bool after = argc > 2 && !std::strcmp(argv[2], "after");
  if (!is_halo && !is_steer)
    return std::fprintf(stderr, "unseen halo|steer before|after [STEPS]\n"), 2;
  const int steps = argc > 3 ? std::atoi(argv[3]) : 40;
  if (is_halo) {
    Grid grid(after);
    return time_steps(argv[1], after, steps, [&] { return halo(grid, after); });
  }
  Bodies bodies;
  return time_steps(argv[1], after, steps, [&] { return steer(bodies); });
}
