#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/serve/http_exchange.h"

namespace foxscope {

/// The clients that a server answers.
struct AdmissionRules {
  std::vector<std::string> names = {};  ///< that it was started under, beside those of this machine for itself
  bool all_networks = false;  ///< it was started under all addresses of the machine, and the machine's own name
  std::vector<std::string> origins = {};  ///< of web pages that may use it: "https://example.org:8443", or "null"
  std::string token = {};                 ///< that clients must send as `Authorization: Bearer TOKEN`; empty: none
};

/// Refuses requests by the sender that their headers name. A web page that is open in a browser on this machine reaches
/// the server, whatever site the page is of; the browser says so in Host, Origin and Sec-Fetch-Site (Fetch standard),
/// which a page cannot change.
/// - Host is localhost or an address of the loopback network, or a name that the server was started under. A name that
///   a stranger has given to this machine's address (DNS rebinding) is neither.
/// - Origin and Sec-Fetch-Site name no other site than the server itself, unless it is one of the rules'.
/// - Authorization has the token.
class Admission {
 public:
  /// @throws UsageError for an origin that is none
  explicit Admission(AdmissionRules rules);

  /// @throws RefusedRequest: 403 forbidden_host, forbidden_origin; 401 unauthorized
  void require(const HttpRequest& request) const;

  /// The origin of a page that may use the server, as it is written in the rules; empty: the request is of no such
  /// page.
  [[nodiscard]] std::string allowed_origin(const HttpRequest& request) const;
  /// Whether this is a browser's question what a page of an allowed origin may do, which comes without a token.
  [[nodiscard]] bool is_preflight(const HttpRequest& request) const;

 private:
  [[nodiscard]] bool is_own_name(std::string_view name) const;
  void require_host(const HttpRequest& request) const;
  void require_origin(const HttpRequest& request) const;
  void require_token(const HttpRequest& request) const;

  AdmissionRules rules_;
  std::string machine_;  ///< the machine's own name, up to the first dot
};

}  // namespace foxscope
