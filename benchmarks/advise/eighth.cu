// Three CUDA C++ programs for the closed loop of advise, the eighth set; see eighth.py.
//
//     nvcc -O3 -std=c++17 -arch=native -cudart static -o eighth benchmarks/advise/eighth.cu
//     eighth lattice|bfs|trace before|after [STEPS]
//
// lattice: a flow by the lattice Boltzmann method, whose density and velocity go to pinned memory
// every eight steps of time, on the stream of the kernels; after: on a stream of their own, from
// two places in turn. bfs: levels of roads from a junction; a flag goes up before each level, and
// comes back after it; after: before and after 16 levels. trace: balls that mirror each other are
// sent for each image, and kernels take nearly all of the time: nothing is to be gained; after: the
// balls are sent once.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "../cuda_check.cuh"
#include "steps.cuh"

namespace {

constexpr int kThreads = 256;

template <class T>
T* on_device(size_t count) {
  void* found = nullptr;
  CHECK(cudaMalloc(&found, count * sizeof(T)));
  CHECK(cudaMemset(found, 0, count * sizeof(T)));
  return static_cast<T*>(found);
}

template <class T>
T* on_device(const std::vector<T>& values) {
  T* found = on_device<T>(values.size());
  CHECK(cudaMemcpy(found, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return found;
}

__host__ __device__ inline uint32_t mixed(uint32_t value) {
  value = (value ^ (value >> 16)) * 0x7feb352du;
  value = (value ^ (value >> 15)) * 0x846ca68bu;
  return value ^ (value >> 16);
}

// ---- lattice ----

// The lattice's sides, powers of two, whose edges meet.
constexpr int kWide = 2048, kHigh = 1024, kCells = kWide * kHigh, kDirections = 9;
constexpr int kOutputs = 10, kStepsApart = 8;
constexpr size_t kOutputValues = static_cast<size_t>(3) * kCells;
constexpr size_t kOutputBytes = kOutputValues * sizeof(float);

__device__ constexpr int right_of(int direction) {
  if (direction == 1 || direction == 5 || direction == 8) return 1;
  return direction == 3 || direction == 6 || direction == 7 ? -1 : 0;
}

__device__ constexpr int down_of(int direction) {
  if (direction == 2 || direction == 5 || direction == 6) return 1;
  return direction == 4 || direction == 7 || direction == 8 ? -1 : 0;
}

struct Flow {
  float density, right, down;
};

// How much of a cell goes in a direction where its parts are in balance.
__device__ inline float balanced(int direction, Flow flow) {
  const float share = direction == 0 ? 4 / 9.0f : direction < 5 ? 1 / 9.0f : 1 / 36.0f;
  const float along = right_of(direction) * flow.right + down_of(direction) * flow.down;
  const float square = flow.right * flow.right + flow.down * flow.down;
  return share * flow.density * (1 + 3 * along + 4.5f * along * along - 1.5f * square);
}

__device__ inline Flow flow_of(const float (&parts)[kDirections]) {
  float density = 0, right = 0, down = 0;
#pragma unroll
  for (int i = 0; i < kDirections; ++i) {
    density += parts[i];
    right += right_of(i) * parts[i];
    down += down_of(i) * parts[i];
  }
  return {density, right / density, down / density};
}

// Layers that slide past each other, with a wave across.
__global__ void set_moving(float* parts) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.y;
  const Flow flow{1, 0.06f * sinpif(2.0f * y / kHigh), 0.02f * sinpif(4.0f * x / kWide)};
#pragma unroll
  for (int i = 0; i < kDirections; ++i) parts[i * kCells + y * kWide + x] = balanced(i, flow);
}

// A step of time: each cell gets what its neighbours send, and mixes it.
__global__ void collide(const float* before, float* after) {
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.y;
  float parts[kDirections];
#pragma unroll
  for (int i = 0; i < kDirections; ++i) {
    const int column = (x - right_of(i)) & (kWide - 1), row = (y - down_of(i)) & (kHigh - 1);
    parts[i] = before[i * kCells + row * kWide + column];
  }
  const Flow flow = flow_of(parts);
#pragma unroll
  for (int i = 0; i < kDirections; ++i)
    after[i * kCells + y * kWide + x] = parts[i] + 1.25f * (balanced(i, flow) - parts[i]);
}

// Writes the density of all cells, then both parts of their velocity.
__global__ void write_flow(const float* all, float* fields) {
  const int cell = blockIdx.y * kWide + blockIdx.x * kThreads + threadIdx.x;
  float parts[kDirections];
#pragma unroll
  for (int i = 0; i < kDirections; ++i) parts[i] = all[i * kCells + cell];
  const Flow flow = flow_of(parts);
  fields[cell] = flow.density;
  fields[kCells + cell] = flow.right;
  fields[2 * kCells + cell] = flow.down;
}

struct Lattice {
  struct Place {
    float* fields;
    cudaEvent_t written, copied;
  };
  float* now = on_device<float>(static_cast<size_t>(kDirections) * kCells);
  float* next = on_device<float>(static_cast<size_t>(kDirections) * kCells);
  float* outputs = host(true, sizeof(float) * kOutputs * kOutputValues);
  cudaStream_t kernels, copies;
  std::vector<Place> places;
  bool apart;
  const dim3 grid{kWide / kThreads, kHigh};

  explicit Lattice(bool apart) : places(apart ? 2 : 1), apart(apart) {
    CHECK(cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking));
    copies = kernels;
    if (apart) CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
    for (Place& place : places) {
      place.fields = on_device<float>(kOutputValues);
      CHECK(cudaEventCreateWithFlags(&place.written, cudaEventDisableTiming));
      CHECK(cudaEventCreateWithFlags(&place.copied, cudaEventDisableTiming));
    }
    set_moving<<<grid, kThreads>>>(now);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());  // the streams do not wait for what is on the default one
  }

  void output(int number) {
    Place& place = places[number % places.size()];
    if (apart) CHECK(cudaStreamWaitEvent(kernels, place.copied, 0));
    write_flow<<<grid, kThreads, 0, kernels>>>(now, place.fields);
    CHECK(cudaGetLastError());
    if (apart) {
      CHECK(cudaEventRecord(place.written, kernels));
      CHECK(cudaStreamWaitEvent(copies, place.written, 0));
    }
    CHECK(cudaMemcpyAsync(outputs + number * kOutputValues, place.fields, kOutputBytes,
                          cudaMemcpyDeviceToHost, copies));
    if (apart) CHECK(cudaEventRecord(place.copied, copies));
  }

  // Returns the sum of some cells' speeds in all outputs.
  double run() {
    for (int number = 0; number < kOutputs; ++number) {
      for (int step = 0; step < kStepsApart; ++step) {
        collide<<<grid, kThreads, 0, kernels>>>(now, next);
        CHECK(cudaGetLastError());
        std::swap(now, next);
      }
      output(number);
    }
    CHECK(cudaDeviceSynchronize());
    double sum = 0;
    for (int number = 0; number < kOutputs; ++number) {
      const float* right = outputs + number * kOutputValues + kCells;
      for (int cell = 0; cell < kCells; cell += 4099) sum += std::fabs(right[cell]);
    }
    return sum;
  }
};

// ---- bfs ----

constexpr int kSide = 512, kNodes = kSide * kSide, kNodeBlocks = kNodes / kThreads;

// Roads between junctions: those out of one are at first[node] to first[node + 1] in `ends`.
struct Roads {
  std::vector<int> first, ends;
};

// Returns a grid of junctions in which one of ten roads is closed.
Roads random_roads() {
  // The road to the next junction of the row, or of the column.
  const auto open = [](int x, int y, int down) {
    const bool inside = x >= 0 && y >= 0 && x + 1 - down < kSide && y + down < kSide;
    return inside && mixed(2 * (y * kSide + x) + down) % 10 != 0;
  };
  Roads roads;
  for (int node = 0; node < kNodes; ++node) {
    const int x = node % kSide, y = node / kSide;
    roads.first.push_back(static_cast<int>(roads.ends.size()));
    if (open(x, y, 0)) roads.ends.push_back(node + 1);
    if (open(x, y, 1)) roads.ends.push_back(node + kSide);
    if (open(x - 1, y, 0)) roads.ends.push_back(node - 1);
    if (open(x, y - 1, 1)) roads.ends.push_back(node - kSide);
  }
  roads.first.push_back(static_cast<int>(roads.ends.size()));
  return roads;
}

struct Search {
  int *first, *ends, *levels, *more;
  uint8_t *active, *found, *visited;  // of each node: in this level, in the next, in any
};

// Finds the nodes of the next level. Threads that find the same one write the same values.
__global__ void expand(Search search) {
  const int node = blockIdx.x * kThreads + threadIdx.x;
  if (!search.active[node]) return;
  search.active[node] = 0;
  const int level = search.levels[node] + 1;
  for (int road = search.first[node]; road < search.first[node + 1]; ++road) {
    const int end = search.ends[road];
    if (search.visited[end]) continue;
    search.levels[end] = level;
    search.found[end] = 1;
  }
}

// Makes the nodes that were found the level to go on from.
__global__ void advance(Search search) {
  const int node = blockIdx.x * kThreads + threadIdx.x;
  if (!search.found[node]) return;
  search.found[node] = 0;
  search.active[node] = 1;
  search.visited[node] = 1;
  *search.more = 1;
}

struct Bfs {
  Search search{};
  std::vector<int> levels = std::vector<int>(kNodes);
  int at_once;
  int number = 0;

  explicit Bfs(int at_once) : at_once(at_once) {
    const Roads roads = random_roads();
    search.first = on_device(roads.first);
    search.ends = on_device(roads.ends);
    search.levels = on_device<int>(kNodes);
    search.more = on_device<int>(1);
    search.active = on_device<uint8_t>(kNodes);
    search.found = on_device<uint8_t>(kNodes);
    search.visited = on_device<uint8_t>(kNodes);
  }

  void begin(int source) {
    CHECK(cudaMemset(search.levels, 0xff, kNodes * sizeof(int)));  // -1: no road leads there
    CHECK(cudaMemset(search.visited, 0, kNodes));
    CHECK(cudaMemset(search.levels + source, 0, sizeof(int)));
    CHECK(cudaMemset(search.active + source, 1, 1));
    CHECK(cudaMemset(search.visited + source, 1, 1));
  }

  // Returns the sum of all nodes' distances from a source, another one in each step.
  double run() {
    begin((kSide / 2) * kSide + kSide / 2 + 3 * number++ % 64);
    int more = 1;
    while (more) {
      more = 0;
      CHECK(cudaMemcpy(search.more, &more, sizeof more, cudaMemcpyHostToDevice));
      for (int level = 0; level < at_once; ++level) {
        expand<<<kNodeBlocks, kThreads>>>(search);
        advance<<<kNodeBlocks, kThreads>>>(search);
      }
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpy(&more, search.more, sizeof more, cudaMemcpyDeviceToHost));
    }
    const size_t bytes = kNodes * sizeof(int);
    CHECK(cudaMemcpy(levels.data(), search.levels, bytes, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (const int level : levels) sum += level;
    return sum;
  }
};

// ---- trace ----

constexpr int kBalls = 2048, kImageWide = 1024, kImageHigh = 512, kSamples = 8, kMirrors = 3;
constexpr size_t kImageBytes = static_cast<size_t>(kImageWide) * kImageHigh * sizeof(uint32_t);

__device__ inline float dot(float3 a, float3 b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

__device__ inline float3 sum_of(float3 a, float times, float3 b) {
  return make_float3(a.x + times * b.x, a.y + times * b.y, a.z + times * b.z);
}

__device__ inline float3 centre_of(float4 ball) {
  return make_float3(ball.x, ball.y, ball.z);
}

// Adds the light that comes by a ray from the middle, and by way of mirrors.
__device__ inline float3 light_of(float3 ray, const float4* balls, const float4* colours) {
  const float3 sun = make_float3(0.6f, 0.64f, -0.48f);
  float3 from = make_float3(0, 0, 0), light = make_float3(0, 0, 0);
  float share = 1;
  for (int mirror = 0; mirror < kMirrors; ++mirror) {
    float nearest = 1e6f;
    int hit = -1;
    for (int i = 0; i < kBalls; ++i) {
      const float4 ball = balls[i];
      const float3 off = sum_of(centre_of(ball), -1, from);
      const float along = dot(off, ray);
      const float inside = along * along - dot(off, off) + ball.w * ball.w;
      if (inside <= 0) continue;
      const float distance = along - sqrtf(inside);
      if (distance <= 1e-3f || distance >= nearest) continue;
      nearest = distance;
      hit = i;
    }
    if (hit < 0) return sum_of(light, share * (0.6f + 0.4f * ray.y), make_float3(0.6f, 0.8f, 1));
    from = sum_of(from, nearest, ray);
    const float3 out = sum_of(from, -1, centre_of(balls[hit]));
    const float3 normal = sum_of(make_float3(0, 0, 0), 1 / balls[hit].w, out);
    const float4 colour = colours[hit];
    const float lit = share * (1 - colour.w) * fmaxf(dot(normal, sun), 0.1f);
    light = sum_of(light, lit, make_float3(colour.x, colour.y, colour.z));
    share *= colour.w;
    ray = sum_of(ray, -2 * dot(ray, normal), normal);
  }
  return light;
}

__device__ inline uint32_t byte_of(float light) {
  return static_cast<uint32_t>(fminf(255 * light / kSamples, 255.0f));
}

// Draws what there is to see in one direction, by some rays for each point.
__global__ void render(const float4* scene, uint32_t* image, float sine, float cosine) {
  __shared__ float4 balls[kBalls];
  for (int i = threadIdx.x; i < kBalls; i += kThreads) balls[i] = scene[i];
  __syncthreads();
  const int x = blockIdx.x * kThreads + threadIdx.x, y = blockIdx.y;
  const uint32_t point = y * kImageWide + x;
  float3 light = make_float3(0, 0, 0);
  for (uint32_t sample = 0; sample < kSamples; ++sample) {
    const uint32_t random = mixed(kSamples * point + sample);
    const float right = 2 * (x + (random & 0xffff) / 65536.0f) / kImageWide - 1;
    const float up = 0.5f - (y + (random >> 16) / 65536.0f) / kImageHigh;
    const float scale = rsqrtf(1 + right * right + up * up);
    const float3 ray =
        make_float3(scale * (cosine * right + sine), scale * up, scale * (cosine - sine * right));
    light = sum_of(light, 1, light_of(ray, balls, scene + kBalls));
  }
  image[point] = byte_of(light.x) << 16 | byte_of(light.y) << 8 | byte_of(light.z);
}

struct Trace {
  std::vector<float4> scene = std::vector<float4>(2 * kBalls);  // places and radii, then colours
  float4* scene_above = on_device<float4>(2 * kBalls);
  uint32_t* image_above = on_device<uint32_t>(kImageBytes / sizeof(uint32_t));
  uint32_t* image = reinterpret_cast<uint32_t*>(host(true, kImageBytes));
  bool sent_once;
  int number = 0;

  explicit Trace(bool sent_once) : sent_once(sent_once) {
    uint32_t state = 1;
    const auto random = [&](float low, float high) {
      state = mixed(state + 0x9e3779b9u);
      return low + (high - low) * (state >> 8) / (1 << 24);
    };
    for (int i = 0; i < kBalls; ++i) {
      const float angle = random(0, 6.2831853f), height = random(-1, 1), away = random(6, 30);
      const float side = away * std::sqrt(1 - height * height);
      scene[i] = {side * std::cos(angle), away * height, side * std::sin(angle),
                  random(0.4f, 1.2f)};
      scene[kBalls + i] = {random(0.2f, 1), random(0.2f, 1), random(0.2f, 1), random(0.2f, 0.9f)};
    }
    if (sent_once) send();
  }

  void send() {
    const size_t bytes = scene.size() * sizeof(float4);
    CHECK(cudaMemcpy(scene_above, scene.data(), bytes, cudaMemcpyHostToDevice));
  }

  // Returns the sum of some points of an image, whose direction is another one in each step.
  double run() {
    const float angle = 0.05f * static_cast<float>(number++);
    if (!sent_once) send();
    render<<<dim3(kImageWide / kThreads, kImageHigh), kThreads>>>(scene_above, image_above,
                                                                  std::sin(angle), std::cos(angle));
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(image, image_above, kImageBytes, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (int point = 0; point < kImageWide * kImageHigh; point += 17) sum += image[point] & 0xff;
    return sum;
  }
};

}  // namespace

int main(int argc, char** argv) {
  return run_named(argc, argv,
                   {named<Lattice>("lattice"),
                    {"bfs",
                     [](bool after) -> std::function<double()> {
                       const auto program = std::make_shared<Bfs>(after ? 16 : 1);
                       return [program] { return program->run(); };
                     }},
                    named<Trace>("trace")});
}
