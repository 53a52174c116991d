#include "backend/serve/admission.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/serve/refused_request.h"
#include "backend/serve/request_json.h"

namespace foxscope {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

/// Whether a name is an address in numbers, and if so, of the loopback network.
enum class NumericAddress { none, loopback, other };

NumericAddress numeric_address(const std::string& name) {
  in_addr four{};
  if (inet_pton(AF_INET, name.c_str(), &four) == 1) {
    return (ntohl(four.s_addr) >> 24U) == 127 ? NumericAddress::loopback : NumericAddress::other;
  }
  in6_addr six{};
  if (inet_pton(AF_INET6, name.c_str(), &six) != 1) return NumericAddress::none;
  const bool mapped = IN6_IS_ADDR_V4MAPPED(&six) != 0 && six.s6_addr[12] == 127;
  return mapped || IN6_IS_ADDR_LOOPBACK(&six) != 0 ? NumericAddress::loopback : NumericAddress::other;
}

/// The name in "name:port", "name" or "[numbers]:port", in lower case and without a dot at its end; nothing where the
/// text is none of these.
std::optional<std::string> name_of_host(std::string_view host) {
  std::string_view name = host;
  std::string_view port;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    name = host.substr(1, end - 1);
    port = host.substr(end + 1);
  } else if (const std::size_t colon = host.find(':'); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    port = host.substr(colon);
  }
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!port.empty() && (port.front() != ':' || !std::ranges::all_of(port.substr(1), is_digit))) return std::nullopt;
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty()) return std::nullopt;
  return in_lower_case(name);
}

/// scheme://host or scheme://host:port, as browsers write it.
bool is_origin(std::string_view text) {
  if (text == "null") return true;
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return false;
  const std::string_view scheme = text.substr(0, colon);
  const std::string_view host = text.substr(colon + 3);
  const auto of_scheme = [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.'; };
  const auto of_host = [](unsigned char c) { return std::isgraph(c) != 0 && std::strchr("/?#@*,\\\"", c) == nullptr; };
  return std::ranges::all_of(scheme, of_scheme) && std::ranges::all_of(host, of_host) && name_of_host(host);
}

std::string own_machine_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return {};
  const std::string lower = in_lower_case(name.data());
  return lower.substr(0, lower.find('.'));
}

/// Whether two strings are equal, in a time that does not say where they differ.
bool equal_in_constant_time(std::string_view given, std::string_view expected) {
  std::size_t difference = given.size() ^ expected.size();
  for (std::size_t n = 0; n < given.size(); ++n) {
    difference |= static_cast<unsigned char>(given[n]) ^
                  static_cast<std::size_t>(static_cast<unsigned char>(expected[n % expected.size()]));
  }
  return difference == 0;
}

}  // namespace

Admission::Admission(AdmissionRules rules) : rules_(std::move(rules)), machine_(own_machine_name()) {
  for (std::string& origin : rules_.origins) {
    if (!is_origin(origin)) {
      throw UsageError(fmt::format(
          "--allow-origin {}: this is not an origin: give scheme, host and port as in https://example.org:8443",
          origin));
    }
    origin = in_lower_case(origin);
  }
  for (std::string& name : rules_.names) name = in_lower_case(name);
}

void Admission::require(const HttpRequest& request) const {
  require_host(request);
  require_origin(request);
  require_token(request);
}

std::string Admission::allowed_origin(const HttpRequest& request) const {
  const auto found = std::ranges::find(rules_.origins, in_lower_case(request.origin));
  return found == rules_.origins.end() ? std::string() : *found;
}

bool Admission::is_preflight(const HttpRequest& request) const {
  return request.method == "OPTIONS" && !allowed_origin(request).empty();
}

bool Admission::is_own_name(std::string_view name) const {
  if (name == "localhost" || std::ranges::find(rules_.names, name) != rules_.names.end()) return true;
  const NumericAddress address = numeric_address(std::string(name));
  if (address != NumericAddress::none) return address == NumericAddress::loopback || rules_.all_networks;
  return rules_.all_networks && !machine_.empty() && name.substr(0, name.find('.')) == machine_;
}

void Admission::require_host(const HttpRequest& request) const {
  // Every browser sends a host.
  if (request.host.empty()) return;
  const std::optional<std::string> name = name_of_host(request.host);
  if (name && is_own_name(*name)) return;
  throw RefusedRequest(403, "forbidden_host",
                       fmt::format("Host: {} is not a name that the server was started under: ask for the address that "
                                   "it listens on, or start it with --host and that name",
                                   shown_text(request.host)));
}

void Admission::require_origin(const HttpRequest& request) const {
  if (!allowed_origin(request).empty()) return;
  if (!request.origin.empty() && in_lower_case(request.origin) != "http://" + in_lower_case(request.host)) {
    throw RefusedRequest(403, "forbidden_origin",
                         fmt::format("Origin: pages of {} may not use the server: start it with --allow-origin and "
                                     "that origin",
                                     shown_text(request.origin)));
  }
  if (request.fetch_site.empty() || request.fetch_site == "same-origin" || request.fetch_site == "none") return;
  throw RefusedRequest(
      403, "forbidden_origin",
      fmt::format("Sec-Fetch-Site: {}: pages of another site may not use the server", shown_text(request.fetch_site)));
}

void Admission::require_token(const HttpRequest& request) const {
  constexpr std::string_view kScheme = "bearer ";
  if (rules_.token.empty() || request.path == "/health" || is_preflight(request)) return;
  std::string_view given = request.authorization;
  if (in_lower_case(given.substr(0, kScheme.size())) == kScheme) {
    given.remove_prefix(kScheme.size());
    while (given.starts_with(' ')) given.remove_prefix(1);  // one or more: RFC 9110, section 11.4
    if (equal_in_constant_time(given, rules_.token)) return;
  }
  throw RefusedRequest(401, "unauthorized", "Authorization: expected \"Bearer TOKEN\" with the server's token");
}

}  // namespace foxscope
