// libgiusto for libwebrtc: a NetworkControllerFactoryInterface for PeerConnectionFactoryDependencies::network_controller_factory.
// SPDX-License-Identifier: MIT OR Apache-2.0
//
//     #include <giusto_webrtc.h>
//     dependencies.network_controller_factory = std::make_unique<giusto::NetworkControllerFactory>("tempo");
//
// Link with libgiusto. C++20, header only. Names and signatures are those of api/transport/network_control.h and network_types.h from M128 to
// 2026. It has been compiled and run against small stand-ins of these headers (crates/capi/tests/cpp), NOT against libwebrtc itself.
//
// What differs from libwebrtc's own controller:
// - The media rate, pacing rate and window are those of the controller by name; StreamsConfig::pacing_factor and max_total_allocated_bitrate are
//   ignored. requests_alr_probing counts at creation.
// - TargetRateConstraints::starting_rate takes effect at creation and after a route change.
// - libwebrtc does not say how long the oldest packet waits: taken as the time that its queue needs at the pacing rate.
// - Where NetworkControllerInterface has SupportsEcnAdaptation (2025), define GIUSTO_WEBRTC_ECN before including this.
//
// Threads: as NetworkControllerInterface, calls must not overlap. Controllers share nothing.
#ifndef GIUSTO_WEBRTC_H
#define GIUSTO_WEBRTC_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/transport/network_control.h"
#include "api/transport/network_types.h"
#include "giusto.h"

namespace giusto {
namespace internal {

// Fields that some versions of libwebrtc lack.
template <typename Packet>
std::uint32_t EcnOf(const Packet& packet) {
  if constexpr (requires { packet.ecn; }) {
    return static_cast<std::uint32_t>(packet.ecn) & 3;
  } else {
    return 0;
  }
}

template <typename Change>
bool RestartsEstimate(const Change& change) {
  if constexpr (requires { change.restart_bwe; }) {
    return change.restart_bwe;
  } else {
    return true;
  }
}

template <typename Estimate, typename Time>
void SetPeriod(Estimate& estimate, Time period) {
  if constexpr (requires { estimate.bwe_period; }) estimate.bwe_period = period;
}

// Of the pacer's window, older versions use only the rate.
template <typename Pacer, typename Time, typename Rate, typename Delta>
Pacer PacerOf(Time at, Rate send, Rate padding, Delta burst) {
  if constexpr (requires { Pacer::Create(at, send, padding, burst); }) {
    return Pacer::Create(at, send, padding, burst);
  } else {
    Pacer pacer;
    pacer.at_time = at;
    pacer.time_window = Delta::Seconds(1);
    pacer.data_window = send * pacer.time_window;
    pacer.pad_window = padding * pacer.time_window;
    return pacer;
  }
}

}  // namespace internal

class NetworkController final : public webrtc::NetworkControllerInterface {
 public:
  // Takes `controller`, which giusto_new has made.
  NetworkController(GiustoController* controller, const webrtc::TargetRateConstraints& constraints)
      : controller_(controller), constraints_(constraints) {
    requirements_.size = sizeof(requirements_);
    giusto_requirements(controller, &requirements_);
  }
  ~NetworkController() override { giusto_free(controller_); }
  NetworkController(const NetworkController&) = delete;
  NetworkController& operator=(const NetworkController&) = delete;

  // The latest decision and its cause, as JSON.
  std::string Decision() {
    const char* text = giusto_decision(controller_);
    return text == nullptr ? std::string() : std::string(text);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnNetworkAvailability(webrtc::NetworkAvailability message) override {
    if (!message.network_available) return {};
    is_available_ = true;
    giusto_on_timeout(controller_, At(message.at_time), 0, 0);
    return Update(message.at_time);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnNetworkRouteChange(webrtc::NetworkRouteChange message) override {
    SetLimits(message.at_time, message.constraints);
    if (internal::RestartsEstimate(message)) {
      giusto_on_route_change(controller_, At(message.at_time));
      numbers_.clear();
    }
    return Update(message.at_time);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnProcessInterval(webrtc::ProcessInterval message) override {
    const std::uint64_t now = At(message.at_time);
    if (!is_available_ || giusto_next_timeout(controller_) > now) return {};
    const std::uint64_t queue = message.pacer_queue ? static_cast<std::uint64_t>(message.pacer_queue->bytes()) : 0;
    const std::uint64_t pacing = target_.pacing_bps;
    giusto_on_timeout(controller_, now, queue, pacing == 0 ? 0 : queue * 8 * 1'000'000 / pacing * 1000);
    return Update(message.at_time);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnRemoteBitrateReport(webrtc::RemoteBitrateReport message) override {
    GiustoFeedback feedback = {};
    if (message.bandwidth.IsFinite()) feedback.receiver_estimate_bps = static_cast<std::uint64_t>(message.bandwidth.bps());
    return Tell(message.receive_time, feedback);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnRoundTripTimeUpdate(webrtc::RoundTripTimeUpdate message) override {
    if (message.smoothed || !message.round_trip_time.IsFinite()) return {};
    rtt_ = message.round_trip_time;
    GiustoFeedback feedback = {};
    feedback.rtt_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(0, rtt_.us())) * 1000;
    return Tell(message.receive_time, feedback);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnSentPacket(webrtc::SentPacket message) override {
    GiustoPacket packet = {};
    packet.size = sizeof(packet);
    packet.bytes = static_cast<std::uint64_t>(message.size.bytes());
    if (message.pacing_info.probe_cluster_id != webrtc::PacedPacketInfo::kNotAProbe) {
      packet.flags = GIUSTO_HAS_PROBE;
      packet.probe = static_cast<std::uint32_t>(message.pacing_info.probe_cluster_id);
    }
    std::uint64_t number = 0;
    if (giusto_on_sent(controller_, At(message.send_time), &packet, &number) == GIUSTO_OK) {
      numbers_[message.sequence_number] = number;
      if (numbers_.size() > kMostPackets) numbers_.erase(numbers_.begin());
    }
    return Update(message.send_time);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnReceivedPacket(webrtc::ReceivedPacket) override { return {}; }
  [[nodiscard]] webrtc::NetworkControlUpdate OnStreamsConfig(webrtc::StreamsConfig) override { return {}; }
  [[nodiscard]] webrtc::NetworkControlUpdate OnNetworkStateEstimate(webrtc::NetworkStateEstimate) override { return {}; }

  [[nodiscard]] webrtc::NetworkControlUpdate OnTargetRateConstraints(webrtc::TargetRateConstraints message) override {
    SetLimits(message.at_time, message);
    return Update(message.at_time);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnTransportLossReport(webrtc::TransportLossReport message) override {
    const std::uint64_t expected = message.packets_lost_delta + message.packets_received_delta;
    if (expected == 0) return {};
    // Below 0 in 64 bits, if more packets were late or duplicated than lost.
    const auto lost = std::max<std::int64_t>(0, static_cast<std::int64_t>(message.packets_lost_delta));
    GiustoFeedback feedback = {};
    feedback.expected_packets = expected;
    feedback.loss_ratio = static_cast<double>(lost) / static_cast<double>(expected);
    return Tell(message.receive_time, feedback);
  }

  [[nodiscard]] webrtc::NetworkControlUpdate OnTransportPacketsFeedback(webrtc::TransportPacketsFeedback message) override {
    std::vector<GiustoReport> reports;
    std::size_t lost = 0;
    for (const webrtc::PacketResult& packet : message.packet_feedbacks) {
      const auto number = numbers_.find(packet.sent_packet.sequence_number);
      if (number == numbers_.end()) continue;
      GiustoReport report = {};
      report.number = number->second;
      report.arrival_ns = GIUSTO_NEVER;
      if (packet.receive_time.IsFinite()) {
        // The receiver's clock has any origin: moved, so that it is never negative.
        report.arrival_ns = static_cast<std::uint64_t>(packet.receive_time.us() + kArrivalOffsetUs) * 1000;
        report.ecn = internal::EcnOf(packet);
        rtt_ = message.feedback_time - packet.sent_packet.send_time;
        numbers_.erase(number);
      } else {
        ++lost;
      }
      reports.push_back(report);
    }
    if (reports.empty()) return {};
    loss_ratio_ = static_cast<float>(lost) / static_cast<float>(reports.size());
    GiustoFeedback feedback = {};
    feedback.reports = reports.data();
    feedback.report_count = reports.size();
    return Tell(message.feedback_time, feedback);
  }

#ifdef GIUSTO_WEBRTC_ECN
  bool SupportsEcnAdaptation() const override { return requirements_.marks != 0; }
#endif

 private:
  static constexpr std::size_t kMostPackets = 1 << 15;
  static constexpr std::int64_t kArrivalOffsetUs = 1'000'000'000'000;

  // libwebrtc's times are finite and not negative; one that is not counts as the latest.
  std::uint64_t At(webrtc::Timestamp time) {
    if (time.IsFinite() && time.us() >= 0) now_ = std::max(now_, static_cast<std::uint64_t>(time.us()) * 1000);
    return now_;
  }

  static std::uint64_t Bps(const webrtc::DataRate& rate) {
    return rate.IsFinite() ? static_cast<std::uint64_t>(std::max<std::int64_t>(0, rate.bps())) : UINT64_C(1'000'000'000'000);
  }

  void SetLimits(webrtc::Timestamp at, const webrtc::TargetRateConstraints& given) {
    if (given.min_data_rate) constraints_.min_data_rate = given.min_data_rate;
    if (given.max_data_rate) constraints_.max_data_rate = given.max_data_rate;
    if (given.starting_rate) constraints_.starting_rate = given.starting_rate;
    const GiustoConfig limits = LimitsOf(constraints_);
    giusto_set_limits(controller_, At(at), limits.min_bps, limits.start_bps, limits.max_bps);
  }

  webrtc::NetworkControlUpdate Tell(webrtc::Timestamp at, GiustoFeedback& feedback) {
    feedback.size = sizeof(feedback);
    feedback.report_size = sizeof(GiustoReport);
    giusto_on_feedback(controller_, At(at), &feedback);
    return Update(at);
  }

  // What has changed since the update before.
  webrtc::NetworkControlUpdate Update(webrtc::Timestamp at) {
    webrtc::NetworkControlUpdate update;
    if (!is_available_) return update;
    GiustoTarget target = {};
    target.size = sizeof(target);
    if (giusto_target(controller_, &target) != GIUSTO_OK) return update;
    if (target.media_bps != target_.media_bps) {
      webrtc::TargetTransferRate rate;
      rate.at_time = at;
      rate.target_rate = webrtc::DataRate::BitsPerSec(static_cast<std::int64_t>(target.media_bps));
      rate.network_estimate.at_time = at;
      rate.network_estimate.bandwidth = rate.target_rate;
      rate.network_estimate.round_trip_time = rtt_;
      rate.network_estimate.loss_rate_ratio = loss_ratio_;
      internal::SetPeriod(rate.network_estimate, webrtc::TimeDelta::Seconds(3));
      update.target_rate = rate;
    }
    if (target.pacing_bps != target_.pacing_bps || target.padding_bps != target_.padding_bps) {
      update.pacer_config = internal::PacerOf<webrtc::PacerConfig>(
          at, webrtc::DataRate::BitsPerSec(static_cast<std::int64_t>(target.pacing_bps)),
          webrtc::DataRate::BitsPerSec(static_cast<std::int64_t>(target.padding_bps)),
          webrtc::TimeDelta::Micros(static_cast<std::int64_t>(requirements_.burst_ns / 1000)));
    }
    if (target.window_bytes != target_.window_bytes) {
      update.congestion_window = target.window_bytes == GIUSTO_NEVER
                                     ? webrtc::DataSize::PlusInfinity()
                                     : webrtc::DataSize::Bytes(static_cast<std::int64_t>(target.window_bytes));
    }
    target_ = target;
    GiustoProbe probe = {};
    probe.size = sizeof(probe);
    while (giusto_next_probe(controller_, &probe) == GIUSTO_OK) {
      webrtc::ProbeClusterConfig cluster;
      cluster.at_time = at;
      cluster.target_data_rate = webrtc::DataRate::BitsPerSec(static_cast<std::int64_t>(probe.rate_bps));
      cluster.target_duration = webrtc::TimeDelta::Micros(static_cast<std::int64_t>(probe.duration_ns / 1000));
      cluster.min_probe_delta = webrtc::TimeDelta::Micros(static_cast<std::int64_t>(probe.batch_ns / 1000));
      cluster.target_probe_count = static_cast<std::int32_t>(probe.packets);
      cluster.id = static_cast<std::int32_t>(probe.cluster);
      update.probe_cluster_configs.push_back(cluster);
    }
    return update;
  }

 public:
  // The limits in the order that giusto_new and giusto_set_limits expect.
  static GiustoConfig LimitsOf(const webrtc::TargetRateConstraints& constraints) {
    GiustoConfig config = {};
    config.size = sizeof(config);
    config.min_bps = constraints.min_data_rate ? Bps(*constraints.min_data_rate) : 0;
    config.min_bps = std::max<std::uint64_t>(config.min_bps, 5'000);
    config.max_bps = std::max(constraints.max_data_rate ? Bps(*constraints.max_data_rate) : UINT64_C(1'000'000'000'000), config.min_bps);
    config.start_bps = std::clamp(constraints.starting_rate ? Bps(*constraints.starting_rate) : 300'000, config.min_bps, config.max_bps);
    return config;
  }

 private:
  GiustoController* const controller_;
  webrtc::TargetRateConstraints constraints_;
  GiustoRequirements requirements_ = {};
  GiustoTarget target_ = {};
  std::map<std::int64_t, std::uint64_t> numbers_;
  std::uint64_t now_ = 0;
  bool is_available_ = false;
  webrtc::TimeDelta rtt_ = webrtc::TimeDelta::Millis(100);
  float loss_ratio_ = 0;
};

class NetworkControllerFactory final : public webrtc::NetworkControllerFactoryInterface {
 public:
  // `name` is one of giusto_names, with constants or not. Check it first: Create returns nullptr for one that Check refuses.
  explicit NetworkControllerFactory(std::string name) : name_(std::move(name)) {}

  // Empty if a controller can be made by this name, else what is wrong with it.
  static std::string Check(const std::string& name) {
    GiustoController* controller = nullptr;
    char error[512] = "";
    if (giusto_abi_version() != GIUSTO_ABI_VERSION) return "libgiusto has another ABI than this header";
    if (giusto_new(name.c_str(), nullptr, &controller, error, sizeof(error)) != GIUSTO_OK) return error;
    giusto_free(controller);
    return "";
  }

  std::unique_ptr<webrtc::NetworkControllerInterface> Create(webrtc::NetworkControllerConfig config) override {
    GiustoConfig limits = NetworkController::LimitsOf(config.constraints);
    limits.probe_while_limited = config.stream_based_config.requests_alr_probing.value_or(false) ? 1 : 0;
    GiustoController* controller = nullptr;
    if (giusto_new(name_.c_str(), &limits, &controller, nullptr, 0) != GIUSTO_OK) return nullptr;
    return std::make_unique<NetworkController>(controller, config.constraints);
  }

  webrtc::TimeDelta GetProcessInterval() const override { return webrtc::TimeDelta::Millis(5); }

 private:
  const std::string name_;
};

}  // namespace giusto

#endif  // GIUSTO_WEBRTC_H
