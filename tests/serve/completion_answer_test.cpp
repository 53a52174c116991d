// Answers: numbers that are the same digit for digit, names that do not collide, errors.
#include "backend/serve/completion_answer.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace foxscope {
namespace {

using nlohmann::json;

const ServedModel kAnswering = {"m", 8, 0, {0}, 64, nullptr};

json answer_to(const CompletionRequest& request, const std::vector<Completion>& completions) {
  const TokenNames names(kAnswering);
  return json::parse(completion_answer(request, completions, kAnswering, names, "cmpl-1", 7));
}

TEST(CompletionAnswer, NumbersReadBackAndAreTheSameInBothPlaces) {
  CompletionRequest request;
  request.prompts = {{1, 2}};
  request.echo = true;
  request.logprobs = 2;
  Completion completion;
  completion.prompt.resize(2);
  completion.prompt[0].log_probability = -1.0F / 3;
  completion.prompt[0].top = {{5, -0.1F}, {1, -1.0F / 3}};
  completion.prompt[1].log_probability = -std::numeric_limits<float>::infinity();
  completion.prompt[1].top = {{4, -0.2F}, {6, -0.3F}};
  const json answer = answer_to(request, {completion});
  const json& values = answer["choices"][0]["logprobs"];
  EXPECT_EQ(values["token_logprobs"][0].get<double>(), static_cast<double>(-1.0F / 3));
  EXPECT_EQ(values["top_logprobs"][0],
            (json{{"token_id:5", static_cast<double>(-0.1F)}, {"token_id:1", static_cast<double>(-1.0F / 3)}}));
  EXPECT_EQ(values["token_logprobs"][1].get<double>(), static_cast<double>(std::numeric_limits<float>::lowest()))
      << "JSON has no infinity";
  EXPECT_EQ(values["top_logprobs"][1].size(), 3U);
  EXPECT_EQ(values["top_logprobs"][1]["token_id:2"], values["token_logprobs"][1]);
  EXPECT_EQ(answer["usage"], (json{{"prompt_tokens", 2}, {"completion_tokens", 0}, {"total_tokens", 2}}));
}

TEST(CompletionAnswer, APromptThatBeginsWithBosHasNothingThatPredictsIt) {
  CompletionRequest request;
  request.prompts = {{0, 2}};
  request.echo = true;
  request.logprobs = 1;
  Completion completion;
  completion.prompt.resize(1);
  completion.prompt[0].log_probability = -1;
  completion.prompt[0].top = {{2, -1}};
  const json answer = answer_to(request, {completion});
  const json& values = answer["choices"][0]["logprobs"];
  EXPECT_EQ(values["token_logprobs"], (json{nullptr, -1.0}));
  EXPECT_EQ(values["top_logprobs"], (json{nullptr, {{"token_id:2", -1.0}}}));
}

TEST(CompletionAnswer, ErrorsAreShortAndHaveTheirType) {
  const json error = json::parse(error_answer(404, "not_found", "x" + std::string(1000, '\xC3')));
  EXPECT_EQ(error["error"]["type"], "not_found_error");
  EXPECT_LE(error["error"]["message"].get<std::string>().size(), 400U);
  EXPECT_EQ(json::parse(error_answer(500, "internal_error", "a"))["error"]["type"], "server_error");
  EXPECT_EQ(json::parse(error_answer(413, "body_too_large", "a"))["error"]["type"], "invalid_request_error");
}

}  // namespace
}  // namespace foxscope
