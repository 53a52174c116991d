// Whom a server answers, by the head of a request.
#include "backend/serve/admission.h"

#include <unistd.h>

#include <array>
#include <string>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/serve/refused_request.h"

namespace foxscope {
namespace {

/// "taken", or the code of the refusal.
std::string verdict(const Admission& admission, const HttpRequest& request) {
  try {
    admission.require(request);
  } catch (const RefusedRequest& refusal) {
    return refusal.code();
  }
  return "taken";
}

HttpRequest for_host(const std::string& host) { return {.method = "GET", .path = "/v1/models", .host = host}; }

HttpRequest of_page(const std::string& origin, const std::string& site = "") {
  return {.method = "GET", .path = "/v1/models", .host = "localhost:8080", .origin = origin, .fetch_site = site};
}

TEST(Admission, AnswersUnderItsNamesAndToThisMachine) {
  const Admission named({.names = {"Gpu-3.lab", "10.0.0.7"}});
  for (const char* host : {"gpu-3.lab", "GPU-3.LAB:8080", "gpu-3.lab.", "10.0.0.7:1", "localhost:9", "127.0.0.1",
                           "127.255.0.1:80", "[::1]:80", "[::ffff:127.0.0.1]", ""}) {
    EXPECT_EQ(verdict(named, for_host(host)), "taken") << host;
  }
  for (const char* host : {"gpu-3", "lab", "10.0.0.8", "[fe80::1]", "evil.example", "127.0.0.1.evil.example",
                           "128.0.0.1", "[::ffff:10.0.0.1]", "localhost:x", "[::1", "[::1]x", ":80", ".", "127.1"}) {
    EXPECT_EQ(verdict(named, for_host(host)), "forbidden_host") << host;
  }
}

TEST(Admission, OnAllNetworksAnswersToNumbersAndTheMachinesName) {
  const Admission all({.names = {"0.0.0.0"}, .all_networks = true});
  std::array<char, 256> machine{};
  gethostname(machine.data(), machine.size() - 1);
  const std::string name(machine.data());
  for (const std::string& host : {std::string("10.0.0.8:80"), std::string("[fe80::1]"), name, name + ":80"}) {
    EXPECT_EQ(verdict(all, for_host(host)), "taken") << host;
  }
  EXPECT_EQ(verdict(all, for_host("evil.example")), "forbidden_host");
}

TEST(Admission, PagesAreAnsweredWhereTheirOriginIsAllowed) {
  const Admission closed({});
  EXPECT_EQ(verdict(closed, of_page("")), "taken");
  EXPECT_EQ(verdict(closed, of_page("http://localhost:8080", "same-origin")), "taken");
  EXPECT_EQ(verdict(closed, of_page("", "none")), "taken");
  for (const char* origin : {"http://localhost:3000", "https://localhost:8080", "null", "http://evil.example"}) {
    EXPECT_EQ(verdict(closed, of_page(origin)), "forbidden_origin") << origin;
  }
  for (const char* site : {"cross-site", "same-site", "?"}) {
    EXPECT_EQ(verdict(closed, of_page("", site)), "forbidden_origin") << site;
    EXPECT_EQ(verdict(closed, of_page("http://localhost:8080", site)), "forbidden_origin") << site;
  }
  const Admission open({.origins = {"https://Page.example", "null"}});
  EXPECT_EQ(verdict(open, of_page("https://page.example", "cross-site")), "taken");
  EXPECT_EQ(verdict(open, of_page("null", "cross-site")), "taken");
  EXPECT_EQ(verdict(open, of_page("https://page.example:8443")), "forbidden_origin");
  EXPECT_EQ(open.allowed_origin(of_page("https://page.example")), "https://page.example");
  EXPECT_EQ(open.allowed_origin(of_page("")), "");
}

TEST(Admission, WhatAPageMayDoIsToldWithoutATokenButUnderAnOwnName) {
  const Admission admission({.origins = {"https://page.example"}, .token = "s3cret"});
  HttpRequest asks = of_page("https://page.example", "cross-site");
  EXPECT_EQ(verdict(admission, asks), "unauthorized");
  asks.method = "OPTIONS";
  EXPECT_TRUE(admission.is_preflight(asks));
  EXPECT_EQ(verdict(admission, asks), "taken");
  asks.host = "evil.example";
  EXPECT_EQ(verdict(admission, asks), "forbidden_host");
  EXPECT_EQ(verdict(admission, {.method = "OPTIONS", .path = "/v1/models", .host = "localhost"}), "unauthorized");
}

TEST(Admission, OriginsAreSchemeHostAndPort) {
  for (const char* origin : {"", "page.example", "https://", "https://page.example/", "https://a b", "*", "https://*",
                             "://a", "https://a:b", "https://u@a"}) {
    EXPECT_THROW(Admission({.origins = {origin}}), UsageError) << origin;
  }
  EXPECT_NO_THROW(Admission({.origins = {"http://[::1]:80", "chrome-extension://abcdef", "null"}}));
}

TEST(Admission, TheTokenIsShownWhateverTheSchemesCase) {
  const Admission admission({.token = "s3cret"});
  const auto shows = [&](const std::string& authorization, const std::string& path = "/v1/models") {
    return verdict(admission, {.method = "GET", .path = path, .authorization = authorization});
  };
  for (const char* right : {"Bearer s3cret", "bearer s3cret", "BEARER s3cret", "Bearer   s3cret"})
    EXPECT_EQ(shows(right), "taken");
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer  ", "Bearers3cret", "Bearer\ts3cret", "s3cret",
                            "Basic s3cret", "Bearer s3cret2", "Bearer S3cret", "Bearer s3cres3cret"}) {
    EXPECT_EQ(shows(wrong), "unauthorized") << wrong;
  }
  EXPECT_EQ(shows("", "/health"), "taken");
}

}  // namespace
}  // namespace foxscope
