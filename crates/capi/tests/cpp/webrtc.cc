// Drives giusto_webrtc.h as libwebrtc does, through a bottleneck of 3, 1 and 3 Mbit/s, 20 ms each way, in virtual time.
#include <cstdio>
#include <cstdlib>
#include <deque>

#ifndef STANDIN_M128
#define GIUSTO_WEBRTC_ECN
#endif
#include <giusto_webrtc.h>

#define CHECK(condition) \
  do { \
    if (!(condition)) { std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); std::exit(1); } \
  } while (0)

using namespace webrtc;

// The sender's side of libwebrtc: the target for the encoder, the pacer with its queue, probes with padding.
struct Sender {
  std::unique_ptr<NetworkControllerInterface> controller;
  std::int64_t media_bps = 0, pacing_bps = 0, window = INT64_MAX, probes = 0;
  std::optional<ProbeClusterConfig> probe;

  void Follow(const NetworkControlUpdate& update) {
    if (update.target_rate) media_bps = update.target_rate->target_rate.bps();
    if (update.pacer_config) pacing_bps = update.pacer_config->RateBps();
    if (update.congestion_window) window = update.congestion_window->bytes();
    for (const ProbeClusterConfig& next : update.probe_cluster_configs) probe = next, ++probes;
  }
};

static Sender Made(const char* name, std::int64_t start_bps) {
  giusto::NetworkControllerFactory factory(name);
  NetworkControllerConfig config((Environment()));
  config.constraints.min_data_rate = DataRate::BitsPerSec(100'000);
  config.constraints.max_data_rate = DataRate::BitsPerSec(5'000'000);
  config.constraints.starting_rate = DataRate::BitsPerSec(start_bps);
  config.stream_based_config.requests_alr_probing = true;
  Sender sender;
  sender.controller = factory.Create(config);
  CHECK(sender.controller != nullptr && factory.GetProcessInterval().us() == 5000);
  return sender;
}

static void FollowsTheBottleneck(const char* name, bool probes, double third) {
  Sender sender = Made(name, 500'000);
  sender.Follow(sender.controller->OnProcessInterval({Timestamp::Micros(0), std::nullopt}));
  CHECK(sender.media_bps == 0);  // nothing before the network is there
  sender.Follow(sender.controller->OnNetworkAvailability({Timestamp::Micros(0), true}));
  CHECK(sender.media_bps == 500'000 && sender.pacing_bps >= 499'000);

  std::deque<PacketResult> network;
  std::vector<PacketResult> arrived;
  std::int64_t sequence = 70'000, free_us = 0, next_us = 0, queue = 0, owed = 0, received = 0, probe_left = 0, in_flight = 0;
  double rates[3] = {};
  for (std::int64_t now = 0; now < 45'000'000; now += 1000) {
    const std::int64_t phase = now / 15'000'000, capacity = phase == 1 ? 1'000'000 : 3'000'000;
    if (now % 33'000 == 0) {
      owed += sender.media_bps * 33 / 8000;
      queue += owed / 1200, owed %= 1200;
    }
    if (now % 5000 == 0) sender.Follow(sender.controller->OnProcessInterval({Timestamp::Micros(now), DataSize::Bytes(queue * 1200)}));
    if (sender.probe && probe_left == 0) {
      probe_left = std::max<std::int64_t>(sender.probe->target_probe_count, sender.probe->target_data_rate.bps() * sender.probe->target_duration.us() / 8'000'000 / 1200 + 1);
      next_us = now;
    }
    while (next_us <= now && (queue > 0 || probe_left > 0) && (probe_left > 0 || in_flight + 1200 <= sender.window)) {
      if (queue > 0) --queue;
      PacketResult packet;
      packet.sent_packet.send_time = Timestamp::Micros(now);
      packet.sent_packet.size = DataSize::Bytes(1200);
      packet.sent_packet.sequence_number = sequence++;
      std::int64_t rate = sender.pacing_bps;
      if (probe_left > 0) {
        packet.sent_packet.pacing_info.probe_cluster_id = sender.probe->id;
        rate = sender.probe->target_data_rate.bps();
        if (--probe_left == 0) sender.probe.reset();
      }
      next_us = std::max(next_us, now - 5000) + 1200 * 8 * INT64_C(1'000'000) / rate;
      const std::int64_t begin = std::max(free_us, now);
      in_flight += 1200;
      if (begin - now < 300'000) {
        free_us = begin + 1200 * 8 * INT64_C(1'000'000) / capacity;
        packet.receive_time = Timestamp::Micros(free_us + 20'000 - 40'000'000);  // a clock of its own, which is behind
      }
      network.push_back(packet);
      sender.Follow(sender.controller->OnSentPacket(packet.sent_packet));
    }
    // Feedback each 50 ms, 20 ms on the way back.
    if (now % 50'000 == 0) {
      TransportPacketsFeedback feedback;
      feedback.feedback_time = Timestamp::Micros(now);
      std::size_t last = 0, place = 0;
      for (const PacketResult& packet : network) {
        ++place;
        if (packet.receive_time.IsFinite() && packet.receive_time.us() + 40'000'000 + 20'000 <= now) last = place;
      }
      for (; last > 0; --last, network.pop_front()) {
        feedback.packet_feedbacks.push_back(network.front());
        in_flight -= 1200;
        if (network.front().receive_time.IsFinite() && now % 15'000'000 >= 7'000'000) rates[phase] += 1200 * 8 / 8e6;
        ++received;
      }
      if (!feedback.packet_feedbacks.empty()) sender.Follow(sender.controller->OnTransportPacketsFeedback(feedback));
    }
  }
  std::printf("%s: %.2f -> %.2f -> %.2f Mbit/s, %lld probes\n", name, rates[0], rates[1], rates[2], static_cast<long long>(sender.probes));
  CHECK(rates[0] > 2.3 && rates[0] < 3.05);
  CHECK(rates[1] > 0.6 && rates[1] < 1.05);
  CHECK(rates[2] > third && rates[2] < 3.05);
  CHECK(received > 5000 && (sender.probes > 0) == probes);
  CHECK(static_cast<giusto::NetworkController*>(sender.controller.get())->Decision().find("\"cause\"") != std::string::npos);

  NetworkRouteChange change;
  change.at_time = Timestamp::Micros(46'000'000);
  change.constraints.starting_rate = DataRate::BitsPerSec(777'000);
  sender.Follow(sender.controller->OnNetworkRouteChange(change));
  CHECK(sender.media_bps == 777'000);
  TargetRateConstraints low;
  low.at_time = Timestamp::Micros(46'100'000);
  low.max_data_rate = DataRate::BitsPerSec(200'000);
  sender.Follow(sender.controller->OnTargetRateConstraints(low));
  CHECK(sender.media_bps == 200'000);
}

static void TakesWhatOthersReport() {
  Sender sender = Made("gcc:remb", 1'000'000);
  sender.Follow(sender.controller->OnNetworkAvailability({Timestamp::Micros(0), true}));
  sender.Follow(sender.controller->OnRemoteBitrateReport({Timestamp::Micros(100'000), DataRate::BitsPerSec(640'000)}));
  CHECK(sender.media_bps == 640'000);
  const std::int64_t before = sender.media_bps;
  for (int time = 1; time < 40; ++time) {
    TransportLossReport report;
    report.receive_time = Timestamp::Micros(1'000'000 * time);
    report.packets_lost_delta = 30, report.packets_received_delta = 70;
    sender.Follow(sender.controller->OnTransportLossReport(report));
    sender.Follow(sender.controller->OnRoundTripTimeUpdate({report.receive_time, TimeDelta::Millis(50), false}));
    sender.Follow(sender.controller->OnProcessInterval({report.receive_time, std::nullopt}));
  }
  CHECK(sender.media_bps < before / 2 && sender.media_bps >= 100'000);
  // More packets were late than lost: the report is one without losses.
  const std::int64_t low = sender.media_bps;
  for (int time = 40; time < 50; ++time) {
    TransportLossReport report;
    report.receive_time = Timestamp::Micros(1'000'000 * time);
    report.packets_lost_delta = static_cast<std::uint64_t>(-1), report.packets_received_delta = 101;
    sender.Follow(sender.controller->OnTransportLossReport(report));
  }
  CHECK(sender.media_bps > low * 3 / 2 && sender.media_bps <= 640'000);
  CHECK(sender.controller->OnReceivedPacket({}).probe_cluster_configs.empty());
  CHECK(!sender.controller->OnTransportPacketsFeedback({}).target_rate);
  CHECK(!sender.controller->OnTransportLossReport({}).target_rate);
}

// A packet that nothing reports fills the window; it is lifted for the next one, and is back afterwards.
static void LiftsTheWindow() {
  Sender sender = Made("scream:v2", 500'000);
  sender.Follow(sender.controller->OnNetworkAvailability({Timestamp::Micros(0), true}));
  CHECK(sender.window > 1200 && sender.window < INT64_MAX);
  SentPacket packet;
  packet.size = DataSize::Bytes(1200);
  for (const bool sends : {true, false, true}) {
    const std::int64_t now = packet.sequence_number * 10'000'000;
    packet.send_time = Timestamp::Micros(now);
    if (sends) sender.Follow(sender.controller->OnSentPacket(packet));
    CHECK(sends == (sender.window < INT64_MAX));
    for (std::int64_t wait = 0; wait < 10'000'000; wait += 5000) {
      sender.Follow(sender.controller->OnProcessInterval({Timestamp::Micros(now + wait), DataSize::Bytes(1200)}));
    }
    CHECK(sender.window == INT64_MAX);
    ++packet.sequence_number;
  }
}

int main() {
  CHECK(giusto::NetworkControllerFactory::Check("tempo").empty());
  CHECK(giusto::NetworkControllerFactory::Check("gcc").find("expected one of") != std::string::npos);
  CHECK(giusto::NetworkControllerFactory("gcc").Create(NetworkControllerConfig((Environment()))) == nullptr);
  CHECK(giusto::NetworkControllerFactory("tempo").Create(NetworkControllerConfig((Environment()))) != nullptr);
#ifndef STANDIN_M128
  CHECK(Made("scream:v2", 500'000).controller->SupportsEcnAdaptation());
  CHECK(!Made("gcc:libwebrtc", 500'000).controller->SupportsEcnAdaptation());
#endif
  FollowsTheBottleneck("tempo", false, 1.9);
  FollowsTheBottleneck("gcc:libwebrtc", true, 1.0);  // 8 % a second, and no probe
  TakesWhatOthersReport();
  LiftsTheWindow();
  return 0;
}
