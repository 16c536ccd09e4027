// The fixtures of a kind, each on the device as it is, on WebGPU's default limits, and with each optional feature off.
#pragma once

#include <gtest/gtest.h>

#include "gull/engine.h"
#include "support/fixtures.h"

namespace gull::test {

struct Variant {
  const char* name;
  LoadOptions options;
};

inline std::vector<Variant> variants() {
  std::vector<Variant> out;
  const auto add = [&](const char* name, auto&& change) {
    LoadOptions options;
    options.precision = Precision::F32;
    change(options);
    out.push_back({name, options});
  };
  add("plain", [](LoadOptions&) {});
  add("baseline", [](LoadOptions& o) { o.device.baseline_limits = true; });
  add("no_subgroups_no_f16", [](LoadOptions& o) { o.device.no_subgroups = o.device.no_f16 = true; });
  add("checked", [](LoadOptions& o) { o.device.checked_shaders = true; });
  add("fast", [](LoadOptions& o) { o.precision = Precision::Fast; });
  return out;
}

struct Case {
  nlohmann::json json;
  Variant variant;
  std::string path(const char* key) const { return data("fixtures/" + json[key].get<std::string>()); }
};

inline void PrintTo(const Case& c, std::ostream* out) { *out << c.json["id"] << " " << c.variant.name; }

/// Of index.json, and of more.json (the architectures that the former lacks).
inline std::vector<Case> cases(const std::string& kind) {
  std::vector<Case> out;
  for (const char* file : {"fixtures/index.json", "fixtures/more.json"}) {
    const nlohmann::json index = read_json(data(file));   // named: a temporary would die before the loop over its part
    for (const auto& c : index["cases"])
      if (c["kind"] == kind)
        for (const Variant& v : variants()) out.push_back({c, v});
  }
  return out;
}

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.json["id"].get<std::string>() + "_" + info.param.variant.name;
  for (char& ch : name)
    if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
  return name;
}

}  // namespace gull::test
