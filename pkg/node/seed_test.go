package node

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack"
)

// golden are the bytes of an event. They were made from the types that nodes of 2020
// sent: gopsutil v2.19.11, blang/semver v3.5.1 and msgpack v4.0.4.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "seed", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hex.DecodeString(strings.ReplaceAll(string(text), "\n", ""))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// filled has a different value in each member, like the golden bytes.
func filled[T any](t *testing.T) (out T) {
	t.Helper()
	v := reflect.ValueOf(&out).Elem()
	for i := range v.NumField() {
		f, n := v.Field(i), i+1
		switch f.Interface().(type) {
		case uint64:
			f.SetUint(uint64(1000 + n))
		case float64:
			f.SetFloat(float64(n) + 0.5)
		case string:
			f.SetString(strings.ToLower(v.Type().Field(i).Name))
		case time.Time:
			f.Set(reflect.ValueOf(time.Unix(1583020800, 5)))
		default:
			t.Fatalf("%s has a member %s", v.Type(), f.Type())
		}
	}
	return out
}

// TestTheSeedsLayout compares version 0.0.1 of the monitors with the seed's bytes.
func TestTheSeedsLayout(t *testing.T) {
	for name, event := range map[string]any{
		"memory": filled[SeedMemory](t),
		"cpu":    SeedCPUs{filled[SeedCPU](t)},
		"disks":  SeedDisks{"sda": filled[SeedDisk](t)},
		"nics":   SeedNics{filled[SeedNic](t)},
		"uptime": 90*time.Minute + 5,
		"version": SeedVersion{
			Major: 1, Minor: 2, Patch: 3, Build: []string{"build", "5"},
			Pre: []SeedPreRelease{{VersionStr: "rc"}, {VersionNum: 4, IsNum: true}},
		},
		"version_plain": SeedVersion{Minor: 2},
	} {
		raw, err := msgpack.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		if want := golden(t, name); !bytes.Equal(raw, want) {
			t.Errorf("%s is\n%x, want\n%x", name, raw, want)
		}
	}
}
