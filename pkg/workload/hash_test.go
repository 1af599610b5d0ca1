package workload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestHashText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h workload.Hash
		copy(h[:], rapid.SliceOfN(rapid.Byte(), len(h), len(h)).Draw(t, "hash"))
		if got, err := workload.ParseHash(h.Hex()); err != nil || got != h || len(h.Hex()) != 64 {
			t.Fatalf("%s is read as %s, %v", h.Hex(), got.Hex(), err)
		}
	})
	digits := strings.Repeat("0a", 32)
	for name, text := range map[string]string{
		"nothing": "", "63 digits": digits[1:], "65 digits": digits + "0", "capitals": strings.ToUpper(digits), "no digit": "g" + digits[1:], "a space": " " + digits[1:], "with 0x": "0x" + digits[2:],
	} {
		_, err := workload.ParseHash(text)
		wantError(t, name, err, "cannot read hash", "64 hexadecimal digits in lower case")
	}
}

// references are the members that refer to a reservation by hash: the recorded
// reservation, the member's place, and its field.
func references() map[string][3]string {
	return map[string][3]string{
		"data.mounts[0].volume_hash": {"container", `"mountpoint":"/data"`, `,"volume_hash":`},
		"data.network.network_hash":  {"container", `"network_id":"net1"`, `,"network_hash":`},
		"data.network_hash":          {"kubernetes_master", `"network_id":"net1"`, `,"network_hash":`},
	}
}

func TestValidateReferencesByHash(t *testing.T) {
	digits := strings.Repeat("0a", 32)
	for field, at := range references() {
		for _, c := range []struct{ name, value, want string }{
			{"a hash", `"` + digits + `"`, ""},
			{"capitals", `"` + strings.ToUpper(digits) + `"`, "64 hexadecimal digits in lower case"},
			{"63 digits", `"` + digits[1:] + `"`, digits[1:]},
			{"65 digits", `"` + digits + `0"`, "64 hexadecimal digits in lower case"},
			{"no digits", `"../` + digits[3:] + `"`, "64 hexadecimal digits in lower case"},
			{"a line behind", `"` + digits + `\n"`, "64 hexadecimal digits in lower case"},
			{"empty", `""`, `"", must be the hash of`},
			{"null", `null`, "null, must be the hash of"},
			{"a number", `7`, "7, must be the hash of"},
		} {
			r := v2Of(t, at[0])
			r.Data = json.RawMessage(strings.Replace(string(r.Data), at[1], at[1]+at[2]+c.value, 1))
			err := workload.Validate(r)
			if c.want == "" {
				if err != nil {
					t.Errorf("%s: %s: %v", field, c.name, err)
				}
				continue
			}
			wantField(t, field+": "+c.name, err, field, "cannot accept "+field, c.want)
		}
	}
}

// Programs of version 1 don't know these members: nobody would check them.
func TestVersion1HasNoReferencesByHash(t *testing.T) {
	digits := strings.Repeat("0a", 32)
	for field, at := range references() {
		r := decode(t, readRecorded(t, at[0]).Post.Request)
		r.Data = json.RawMessage(strings.Replace(string(r.Data), at[1], at[1]+at[2]+`"`+digits+`"`, 1))
		wantField(t, field, workload.Validate(r), field, digits, "absent in version 1")
	}
}

// v2Of is the recorded reservation of that name as one of version 2.
func v2Of(t *testing.T, name string) *workload.Reservation {
	t.Helper()
	r := decode(t, readRecorded(t, name).Post.Request)
	r.Version, r.Nonce = workload.V2, make([]byte, workload.NonceSize)
	return r
}

// References by ID alone are written as before: with an old document's data, the
// signed bytes stay the same.
func TestNoReferenceByHashIsNoMember(t *testing.T) {
	for _, value := range []any{workload.Mount{VolumeID: "1-1"}, workload.ContainerNetwork{NetworkID: "n"}, workload.Kubernetes{NetworkID: "n"}} {
		out, err := json.Marshal(value)
		if err != nil || strings.Contains(string(out), "_hash") {
			t.Errorf("%T is %s, %v", value, out, err)
		}
	}
}
