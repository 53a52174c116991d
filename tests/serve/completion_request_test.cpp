// Bodies of requests: what is read, and which field an error names.
#include "backend/serve/completion_request.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/serve/refused_request.h"
#include "backend/serve/request_json.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

const ServedModel kModel = {"m", 64, 3, {3}, 20, nullptr};
const ServedModel kOther = {"n", 8, 3, {3}, 20, nullptr};

CompletionRequest read_body(const std::string& body, ServedModels models) {
  const nlohmann::json object = read_request_object(body);
  return read_completion_request(object, model_named(object, models), {});
}

/// "STATUS CODE MESSAGE" of a body that is refused.
std::string refusal_of(const std::string& body, const std::vector<const ServedModel*>& models = {&kModel}) {
  try {
    static_cast<void>(read_body(body, models));
  } catch (const RefusedRequest& refusal) {
    return std::to_string(refusal.status()) + ' ' + refusal.code() + ' ' + refusal.what();
  }
  return "taken";
}

std::string with(const std::string& fields) { return R"({"model":"m","prompt":[1,2])" + fields + '}'; }

TEST(CompletionRequest, DefaultsAreThoseOfTheProtocol) {
  const std::vector<const ServedModel*> models = {&kModel};
  const CompletionRequest request = read_body(R"({"model":"m","prompt":[1,2],"max_tokens":4})", models);
  EXPECT_EQ(request.prompts, (std::vector<std::vector<std::int32_t>>{{1, 2}}));
  EXPECT_EQ(request.max_tokens, 4);
  EXPECT_EQ(request.temperature, 1);
  EXPECT_EQ(request.top_p, 1);
  EXPECT_FALSE(request.seed);
  EXPECT_FALSE(request.echo);
  EXPECT_FALSE(request.logprobs);
  EXPECT_TRUE(request.stop.empty());
}

TEST(CompletionRequest, PositionsAreCountedWithBosAndWithoutTheLastNewToken) {
  std::string ids = "[5";
  for (int n = 1; n < 19; ++n) ids += ",5";
  const auto body = [&](const std::string& prompt, int max_tokens) {
    return R"({"model":"m","prompt":)" + prompt + R"(,"max_tokens":)" + std::to_string(max_tokens) + '}';
  };
  EXPECT_EQ(refusal_of(body(ids + "]", 0)), "taken");
  EXPECT_EQ(refusal_of(body(ids + "]", 1)), "taken");
  EXPECT_EQ(
      refusal_of(body(ids + "]", 2)),
      "400 context_length_exceeded prompt[0]: 19 ids and max_tokens 2 make 21 positions with BOS, the server reads "
      "at most 20");
  EXPECT_EQ(refusal_of(body("[3," + ids.substr(1) + "]", 1)), "taken") << "BOS is there already";
  EXPECT_EQ(refusal_of(body("[4," + ids.substr(1) + "]", 1)).substr(0, 27), "400 context_length_exceeded");
}

TEST(CompletionRequest, WhatIsWrongIsNamed) {
  EXPECT_EQ(refusal_of(with(R"(,"max_tokens":-1)")),
            "400 invalid_value max_tokens: expected an integer of at least 0, got -1");
  EXPECT_EQ(refusal_of(with(R"(,"n":2)")), "400 invalid_value n: only 1 or null is supported, got 2");
  EXPECT_EQ(refusal_of(with(R"(,"messages":[])")), "400 unknown_field 'messages': there is no such field");
  EXPECT_EQ(refusal_of(with(R"(,"stop":["a",""])")),
            "400 invalid_value stop: expected a string or a list of strings, none of them empty, got ''");
  EXPECT_EQ(refusal_of(with(R"(,"stop":"a")")),
            "400 invalid_value stop: the model has no tokenizer, its answers have no text");
  EXPECT_EQ(refusal_of(R"({"model":"m","prompt":"a"})"),
            "400 invalid_value prompt: the model has no tokenizer: send ids");
  EXPECT_EQ(refusal_of(R"({"model":"m","prompt":[[1],[64]]})"),
            "400 token_out_of_range prompt[1][0]: id 64 is outside the vocabulary, 0 to 63");
  EXPECT_EQ(refusal_of(R"({"model":"x","prompt":[1]})"), "404 model_not_found model: 'x' is not served here, 'm' is");
  EXPECT_EQ(refusal_of(R"({"model":"m"})"), "400 missing_field prompt: the field is missing");
  EXPECT_EQ(refusal_of(R"({"model":"m","model":"m"})"), "400 invalid_value 'model': is given twice");
}

TEST(CompletionRequest, TooLongPromptsAreNotCutToTheirEnd) {
  const Tokenizer tokenizer = Tokenizer::load(FOXSCOPE_SOURCE_DIR "/resources/models/fox-pro-12m");
  const ServedModel model = {"m", 8192, 0, {0}, 20, &tokenizer};
  std::string text;
  for (int n = 0; n < 100'000; ++n) text += "fox ";
  int asked = 0;
  const auto stays = [&] { return ++asked < 0; };
  EXPECT_LE(ids_of_text(text, model, stays, 20).ids.size(), 40U);
  EXPECT_FALSE(ids_of_text(text, model, stays, 20).whole);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(refusal_of(R"({"model":"m","prompt":["fox",")" + text + R"("]})", {&model}),
            "400 context_length_exceeded prompt[1]: more than 20 ids, the server reads at most 20 positions");
  EXPECT_EQ(refusal_of(R"({"model":"m","prompt":[[1],[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]]})", {&model}),
            "400 context_length_exceeded prompt[1]: 21 ids, the server reads at most 20 positions");
}

TEST(CompletionRequest, TextsOfClientsThatHaveLeftAreNotCutToTheirEnd) {
  const Tokenizer tokenizer = Tokenizer::load(FOXSCOPE_SOURCE_DIR "/resources/models/fox-pro-12m");
  const ServedModel model = {"m", 8192, 0, {0}, 20, &tokenizer};
  std::string text;
  for (int n = 0; n < 100'000; ++n) text += "fox ";
  int asked = 0;
  try {
    static_cast<void>(ids_of_text(text, model, [&] { return ++asked == 2; }));
    ADD_FAILURE() << "nobody was told";
  } catch (const RefusedRequest& refusal) {
    EXPECT_EQ(refusal.code(), "stopped");
  }
  EXPECT_EQ(asked, 2);
  const TextIds whole = ids_of_text(text, model, [] { return false; });
  EXPECT_TRUE(whole.whole);
  EXPECT_EQ(whole.ids, tokenizer.encode(text).id);
}

TEST(CompletionRequest, NeutralFieldsAreTaken) {
  for (const char* field : {R"("user":"somebody")", R"("repetition_penalty":1.0)", R"("top_k":-1)", R"("top_k":0)",
                            R"("ignore_eos":false)", R"("stream_options":null)", R"("stop_token_ids":[])"}) {
    EXPECT_EQ(refusal_of(with(std::string(",") + field)), "taken") << field;
  }
  EXPECT_EQ(refusal_of(with(R"(,"top_k":40)")), "400 invalid_value top_k: only -1 or 0 or null is supported, got 40");
  EXPECT_EQ(refusal_of(with(R"(,"user":1)")), "400 invalid_value user: only a string or null is supported, got 1");
}

TEST(CompletionRequest, StopStringsAreBounded) {
  std::string many = R"(,"stop":["a")";
  for (int n = 0; n < 1024; ++n) many += R"(,"a")";
  EXPECT_EQ(refusal_of(with(many + "]")), "400 invalid_value stop: 1025 strings, at most 1024 are looked for");
}

TEST(CompletionRequest, NumbersInItsAnswerAreCounted) {
  const std::vector<const ServedModel*> models = {&kModel};
  const CompletionRequest request =
      read_body(R"({"model":"m","prompt":[[1,2],[3]],"max_tokens":4,"logprobs":2})", models);
  // BOS is added to the first alone; the last new token is scored, not read.
  EXPECT_EQ(numbers_in_answer(request, kModel), (1 + 2 + 4 + 1 + 4) * 3);
}

TEST(CompletionRequest, IsReadAgainstTheModelThatItNames) {
  const std::vector<const ServedModel*> models = {&kModel, &kOther};
  EXPECT_EQ(refusal_of(R"({"model":"m","prompt":[9]})", models), "taken");
  EXPECT_EQ(refusal_of(R"({"model":"n","prompt":[9]})", models),
            "400 token_out_of_range prompt[0]: id 9 is outside the vocabulary, 0 to 7");
  EXPECT_EQ(refusal_of(R"({"model":"o","prompt":[1]})", models),
            "404 model_not_found model: 'o' is not served here, 'm', 'n' are");
  EXPECT_EQ(refusal_of(R"({"prompt":[1]})", models), "400 missing_field model: the field is missing");
}

TEST(CompletionRequest, NestingAndListsAreBounded) {
  EXPECT_EQ(refusal_of(std::string(1'000'000, '[')),
            "400 not_json the body: lists lie inside one another deeper than 16 levels");
  std::string many = R"({"model":"m","prompt":[[1])";
  for (int n = 0; n < 6000; ++n) many += ",[1]";
  EXPECT_EQ(refusal_of(many + "]}"), "400 invalid_value the body: more than 5000 lists; send fewer prompts at once");
  EXPECT_EQ(refusal_of(with(R"(,"temperature":1e999)")), "400 not_json the body holds a number that is too large");
  EXPECT_EQ(refusal_of(with(R"(,"temperature":NaN)")).substr(0, 12), "400 not_json");
}

TEST(RequestJson, ValuesInMessagesAreShort) {
  EXPECT_EQ(shown(nlohmann::json::parse("[1,2,3]")), "a list of 3");
  EXPECT_LT(shown(nlohmann::json(std::string(10'000, 'x'))).size(), 80U);
  EXPECT_EQ(shown_text("a\nb"), "'a?b'");
}

}  // namespace
}  // namespace foxscope
