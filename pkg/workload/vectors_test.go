package workload_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// exchange is a recorded request with its answer.
type exchange struct {
	Request  string `json:"request_body"`
	Response string `json:"response_body"`
	Status   int    `json:"status"`
}

// recorded is a reservation's file below testdata/v1.
type recorded struct {
	ID        string `json:"id"`
	User      string `json:"user"`
	Node      string `json:"node"`
	Draft     string `json:"schema_from_tfuser_generate"`
	Post      exchange
	Data      string   `json:"data_text"`
	Signed    string   `json:"signed_bytes_hex"`
	Signature string   `json:"signature_hex"`
	Before    exchange `json:"get_before_result"`
	After     exchange `json:"get_after_result"`
	Result    struct {
		Put       exchange
		Signed    string `json:"signed_bytes_hex"`
		Signature string `json:"signature_hex"`
		By        string `json:"signed_by"`
	}
	Secrets map[string]json.RawMessage
}

// recordedSecret is a sealed field of a recorded reservation.
type recordedSecret struct {
	Ciphertext string `json:"ciphertext_hex"`
	Recipient  string
	Plaintext  string
}

func recordedNames() []string {
	return []string{"volume", "volume_hdd", "volume_100years", "network", "network_second_node", "network_access", "container", "container_failed", "zdb", "zdb_nopassword", "kubernetes_master", "kubernetes_worker", "debug"}
}

func readRecorded(t testing.TB, name string) recorded {
	t.Helper()
	var out recorded
	readJSON(t, "v1/"+name+".json", &out)
	return out
}

func readJSON(t testing.TB, name string, to any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// testKey is one of the recorded keys: user, other-user, node1, node2.
func testKey(t testing.TB, name string) sign.KeyPair {
	t.Helper()
	var keys map[string]struct {
		Seed string `json:"seed_hex"`
	}
	readJSON(t, "v1/keys.json", &keys)
	seed, err := hex.DecodeString(keys[name].Seed)
	if err != nil {
		t.Fatal(err)
	}
	k, err := sign.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func decode(t testing.TB, body string) *workload.Reservation {
	t.Helper()
	r, err := workload.Decode([]byte(body))
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return r
}

// wantError checks that err starts as errors do and contains all of the parts.
func wantError(t testing.TB, name string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want one with %q", name, parts)
		return
	}
	if !strings.HasPrefix(err.Error(), "cannot ") {
		t.Errorf("%s: error %q doesn't start with cannot", name, err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%s: error is %q, want one with %q", name, err, p)
		}
	}
}
