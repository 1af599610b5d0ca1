package seal_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/seal"
)

// vector is a key document and an object, as version 1 writes them. Mirrors outlive the program that wrote them: their formats never change.
type vector struct {
	// NodeSeed and RecoverySeed are the private keys.
	NodeSeed, RecoverySeed []byte
	Document               json.RawMessage
	Object                 persist.Object
	Item                   seal.Item
}

func vectorFile() string { return filepath.Join("testdata", "version1.json") }

var makeVector = flag.Bool("make-vector", false, "write the vector of a new version of the formats")

func TestVector(t *testing.T) {
	if *makeVector {
		writeVector(t)
	}
	text, err := os.ReadFile(vectorFile())
	if err != nil {
		t.Fatal(err)
	}
	var v vector
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, seed := range [][]byte{v.NodeSeed, v.RecoverySeed} {
		k, err := sign.FromSeed(seed)
		if err != nil {
			t.Fatal(err)
		}
		own, err := sign.FromSeed(v.NodeSeed)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := seal.Unwrap(v.Document, persist.MachineID(own.ID()), k)
		if err != nil || opened.Node.ID() != own.ID() {
			t.Fatalf("%v", err)
		}
		got, err := opened.Vault.Open(v.Object)
		if err != nil || got.Name != v.Item.Name || got.Kind != v.Item.Kind || got.Version != v.Item.Version || !bytes.Equal(got.Body, v.Item.Body) {
			t.Errorf("%+v, %v, want %+v", got, err, v.Item)
		}
	}
}

func writeVector(t *testing.T) {
	t.Helper()
	own, recovery := key(t), key(t)
	made := vault(t, own.ID())
	doc, err := made.Wrap(own, recovery.ID())
	if err != nil {
		t.Fatal(err)
	}
	v := vector{
		NodeSeed: own.Seed(), RecoverySeed: recovery.Seed(), Document: doc,
		Item: seal.Item{Kind: "file", Name: "17-1@hash", Version: 1 << 40, Body: bytes.Repeat([]byte("a record "), 20)},
	}
	if v.Object, err = made.Seal(v.Item); err != nil {
		t.Fatal(err)
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(vectorFile(), append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}
