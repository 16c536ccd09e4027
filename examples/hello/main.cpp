// The smallest program with gull: hello MODEL.gguf "a prompt"
#include <gull/engine.h>

#include <cstdio>

int report(const gull::Error& error) {
  std::fprintf(stderr, "hello: %s\n", error.message.c_str());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return report({gull::ErrorKind::InvalidArgument, "usage: hello MODEL.gguf PROMPT"});

  auto model = gull::Model::load(argv[1]);
  if (!model) return report(model.error());
  auto session = gull::Session::create(*model);
  if (!session) return report(session.error());
  auto prompt = (*model)->tokenize(argv[2]);
  if (!prompt) return report(prompt.error());

  gull::GenerateOptions options;
  options.max_tokens = 32;
  auto result = (*session)->generate(*prompt, options, [](const gull::Piece& piece) {
    std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
    return std::fflush(stdout) == 0;
  });
  if (!result) return report(result.error());
  std::printf("\n%u tokens at %.1f per second\n", result->timings.generated_tokens,
              result->timings.generated_tokens / result->timings.generate_s);
}
