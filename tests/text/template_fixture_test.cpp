// Chat templates against what jinja2 renders.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "text/chat_template.h"

namespace {

using gull::text::ChatTemplate;
using gull::text::Json;
using gull::text::TemplateInput;
namespace fs = std::filesystem;

const fs::path kFolder = fs::path(GULL_TEST_DATA) / "fixtures" / "chat";

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream all;
  all << in.rdbuf();
  EXPECT_TRUE(in) << path;
  return all.str();
}

TEST(ChatTemplate, FixturesAreRenderedByteForByte) {
  const Json conversations = Json::parse(read(kFolder / "conversations.json"));
  int renders = 0;
  for (const auto& file : fs::directory_iterator(kFolder)) {
    if (file.path().extension() != ".json" || file.path().stem() == "conversations") continue;
    const Json fixture = Json::parse(read(file.path()));
    SCOPED_TRACE(file.path().filename().string());
    const auto chat = ChatTemplate::compile(read(kFolder / fixture["template"].get<std::string>()));
    ASSERT_TRUE(chat) << chat.error().message;
    for (const Json& expected : fixture["renders"]) {
      const Json& conversation = conversations["conversations"][expected["conversation"].get<std::string>()];
      TemplateInput input;
      input.messages = conversation["messages"];
      if (conversation.contains("tools")) input.tools = conversation["tools"];
      input.add_generation_prompt = expected["add_generation_prompt"];
      input.bos_token = fixture["bos_token"];
      input.eos_token = fixture["eos_token"];
      input.now = conversations["strftime_now"];
      const auto render = (*chat)->render(input);
      renders++;
      if (expected.contains("error")) EXPECT_FALSE(render) << expected.dump();
      else if (!render) ADD_FAILURE() << render.error().message;
      else EXPECT_EQ(*render, expected["render"].get<std::string>());
    }
  }
  EXPECT_EQ(renders, 40);
}

}  // namespace
