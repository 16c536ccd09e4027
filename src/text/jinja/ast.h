// A parsed template: a tree of statements and expressions.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace gull::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// f(1, x=2, *list, **dict)
struct CallArgs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, star_star;
};

struct Expr {
  enum Kind {
    Constant,      ///< constant
    Name,          ///< name
    List, Tuple,   ///< kids
    Dict,          ///< kids: key, value, key, value …
    Attribute,     ///< kids[0] . name; as a target: name . attribute
    Item,          ///< kids[0] [ kids[1] ]
    Slice,         ///< kids: begin, end, step; each may be null
    Call,          ///< kids[0] ( args )
    Filter,        ///< kids[0] | name ( args ); kids[0] is null in filter blocks
    Test,          ///< kids[0] is name ( args )
    Not, And, Or, Negative, Positive,
    Binary,        ///< kids[0] op kids[1]; name: + - * / // % **
    Compare,       ///< kids[0] operators[0] kids[1] operators[1] …
    Concat,        ///< kids, joined as strings
    Conditional,   ///< kids: condition, then, else (may be null)
  } kind = Constant;
  int line = 0;
  int depth = 1;                        ///< of the tree below
  std::string name, attribute;
  Value constant;
  std::vector<ExprPtr> kids;
  std::unique_ptr<CallArgs> args;
  std::vector<std::string> operators;
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

/// Parameters of a macro or call block; the last defaults.size() ones have a default.
struct Signature {
  std::vector<std::string> names;
  std::vector<ExprPtr> defaults;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;   ///< names that the body reads
};

struct Stmt {
  enum Kind {
    Data,         ///< text
    Print,        ///< exprs
    If,           ///< exprs[i] is the condition of bodies[i]; one more body is the else branch
    For,          ///< target in exprs[0] [if exprs[1]]; bodies: loop, else
    Set,          ///< target = exprs[0]
    SetBlock,     ///< target = bodies[0], through the filters exprs[0] (may be null)
    Macro,        ///< name, signature, bodies[0]
    CallBlock,    ///< exprs[0] is the call; signature and bodies[0] are caller()
    FilterBlock,  ///< exprs[0] is the filter chain
    With,         ///< targets[i] = exprs[i] in bodies[0]
    Scope,        ///< bodies[0] in a scope of its own ({% generation %}, {% block %})
    Break, Continue,
  } kind = Data;
  int line = 0;
  Value text;
  std::string name;
  bool recursive = false;
  ExprPtr target;
  std::vector<ExprPtr> targets, exprs;
  std::vector<Block> bodies;
  Signature signature;
};

}  // namespace gull::text::jinja
