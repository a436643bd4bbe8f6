// Artifacts that are signed (fusec sign), and a runtime that loads no others (runtime/SECURITY.md).
#include <algorithm>

#include "tests/end_to_end/program_test.h"

namespace fusec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = R"(<ir_version: 8, opset_import: ["" : 17]>
signed (float[batch, 3] x) => (float[batch, 3] y) {
  y = Relu(x)
}
)";

class Signature : public ModelTest {
 protected:
  Signature() : ModelTest(kModel) {}
  void SetUp() override {
    ModelTest::SetUp();
    artifact_ = Compiled({});
    MakeKey("ann");
    MakeKey("eve");
    std::ifstream key(folder_ + "/ann.pub");
    std::ofstream(folder_ + "/signers") << "ann@example.org " << key.rdbuf();
  }
  void MakeKey(const std::string& name) const {
    const ChildResult made = RunChild({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder_ + "/" + name});
    ASSERT_EQ(made.exit_code, 0) << made.errors;
  }
  void Sign(const std::string& name) const {
    const ChildResult made = Fusec({"sign", artifact_, "--key", folder_ + "/" + name});
    ASSERT_EQ(made.exit_code, 0) << made.errors;
  }
  ChildResult Run(const std::string& signers) const {
    return RunChild({"env", "FUSEC_ALLOWED_SIGNERS=" + signers, FUSEC_PROGRAM, "run", artifact_, "--random", "--dim", "batch=2",
                     "--output", folder_ + "/answers"});
  }
  // Runs where Ann may sign, and expects an error with these words, in one line.
  void ExpectError(const std::string& words) const {
    const ChildResult run = Run(folder_ + "/signers");
    EXPECT_EQ(run.exit_code, 5) << run.errors;
    EXPECT_NE(run.errors.find(words), std::string::npos) << run.errors;
    EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 1) << run.errors;
  }
  std::string artifact_;
};

TEST_F(Signature, OfSomebodyInTheFileIsTaken) {
  EXPECT_EQ(Run("").exit_code, 0);
  ExpectError("is not signed");
  Sign("ann");
  const ChildResult run = Run(folder_ + "/signers");
  EXPECT_EQ(run.exit_code, 0) << run.errors;
  Sign("eve");  // in place of Ann's
  ExpectError("is of nobody in");
  const ChildResult nobody = Run(folder_ + "/missing");
  EXPECT_EQ(nobody.exit_code, 5) << nobody.errors;
  EXPECT_NE(nobody.errors.find("No such file"), std::string::npos) << nobody.errors;
}

TEST_F(Signature, IsOfTheFilesAsTheyAre) {
  Sign("ann");
  std::ofstream(artifact_ + "/cpu/kernels.cc", std::ios::app) << "// altered\n";
  ExpectError("was altered since ann@example.org signed it");
  Sign("ann");
  EXPECT_EQ(Run(folder_ + "/signers").exit_code, 0);
  std::ofstream(artifact_ + "/cpu/more.so") << "code";
  ExpectError("cpu/more.so: is not among the files that were signed");
  fs::remove(artifact_ + "/cpu/more.so");
  std::ofstream(artifact_ + "/SHA256SUMS", std::ios::app) << "x\n";
  ExpectError("is not what ann@example.org has signed");
}

TEST_F(Signature, NeedsAnArtifactAndAKey) {
  const ChildResult no_key = Fusec({"sign", artifact_, "--key", folder_ + "/missing"});
  EXPECT_EQ(no_key.exit_code, 2) << no_key.errors;
  EXPECT_NE(no_key.errors.find("no such key"), std::string::npos) << no_key.errors;
  const ChildResult no_artifact = Fusec({"sign", folder_, "--key", folder_ + "/ann"});
  EXPECT_EQ(no_artifact.exit_code, 5) << no_artifact.errors;
  const ChildResult bad_key = Fusec({"sign", artifact_, "--key", model_});
  EXPECT_EQ(bad_key.exit_code, 4) << bad_key.errors;
  EXPECT_FALSE(fs::exists(artifact_ + "/SHA256SUMS.sig"));
}

}  // namespace
}  // namespace fusec
