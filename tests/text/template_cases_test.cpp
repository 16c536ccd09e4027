// Our own templates, one construct after the other, against jinja2 (tests/text/make_template_cases.py made the file).
#include <gtest/gtest.h>

#include <fstream>

#include "text/chat_template.h"

namespace {

using gull::text::ChatTemplate;
using gull::text::Json;
using gull::text::TemplateInput;

Json load() {
  std::ifstream in(std::string(GULL_TEST_DATA) + "/chat/cases.json", std::ios::binary);
  return Json::parse(in, nullptr, false);
}

TemplateInput input_of(const Json& all, const Json& c) {
  const Json& conversation = all["conversations"][c.value("conversation", "plain")];
  TemplateInput input;
  input.messages = conversation["messages"];
  if (conversation.contains("tools")) input.tools = conversation["tools"];
  input.add_generation_prompt = c.value("add_generation_prompt", true);
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = all["now"];
  input.extra = all["extra"];
  if (c.contains("extra")) input.extra.update(c["extra"]);
  return input;
}

TEST(ChatTemplate, EveryConstructIsRenderedAsJinja2DoesIt) {
  const Json all = load();
  ASSERT_TRUE(all.is_object());
  EXPECT_GE(all["cases"].size(), 250u);
  for (const Json& c : all["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>() + ": " + c["template"].get<std::string>().substr(0, 300));
    gull::Result<std::string> render = [&]() -> gull::Result<std::string> {
      const auto chat = ChatTemplate::compile(c["template"]);
      if (!chat) return gull::fail(chat.error());
      return (*chat)->render(input_of(all, c));
    }();
    if (c.contains("error")) {
      EXPECT_FALSE(render) << "jinja2 says " << c["error"] << ", gull renders " << *render;
      if (!render) {
        EXPECT_NE(render.error().message.find("line"), std::string::npos) << render.error().message;
      }
    } else if (!render) {
      ADD_FAILURE() << render.error().message;
    } else {
      EXPECT_EQ(*render, c["render"].get<std::string>());
    }
  }
}

}  // namespace
