package nodeimage

import (
	"crypto/ed25519"
	"reflect"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/nodeimage/verity"
)

func valid() Manifest {
	sum := strings.Repeat("ab", 32)
	root := verity.Tree{DataBlocks: 300, Salt: "00ff", RootHash: sum}
	return Manifest{
		Format: Format, Version: "v1.2.3", Kernel: "6.1.0-1-amd64", Built: 1_700_000_000,
		Files:      []File{{KernelFile, 8, sum}, {InitrdFile, 9, sum}, {RootFile, root.FileBytes(), sum}},
		Root:       root,
		SBOM:       &File{SBOMFile, 10, sum},
		Components: []Component{{"containerd", "1.6.20~ds1-1"}},
	}
}

func TestManifestComesBack(t *testing.T) {
	raw, err := valid().Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(raw)
	if err != nil || !reflect.DeepEqual(got, valid()) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOlderManifest holds that a manifest without an SBOM is read, and that its bytes stay as they were signed.
func TestOlderManifest(t *testing.T) {
	older := valid()
	older.SBOM = nil
	raw, err := older.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(raw), "sbom") {
		t.Errorf("it names an SBOM:\n%s", raw)
	}
	got, err := Decode(raw)
	if err != nil || !reflect.DeepEqual(got, older) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestANewerManifestIsRead: an image with members that this croft doesn't know is installed by it.
func TestANewerManifestIsRead(t *testing.T) {
	raw, err := valid().Encode()
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(string(raw), `"format": 1,`, `"format": 1, "more": {"than": "known"},`, 1)
	got, err := Decode([]byte(newer))
	if err != nil || newer == string(raw) || got.Version != valid().Version {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestWrongManifests holds that each wrong field is named, by Encode and by Decode.
func TestWrongManifests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"another format":   {func(m *Manifest) { m.Format = 2 }, "format is 2, must be 1"},
		"no version":       {func(m *Manifest) { m.Version = "" }, "version"},
		"an escape":        {func(m *Manifest) { m.Version = "\x1b[2J" }, "version"},
		"a slash":          {func(m *Manifest) { m.Version = "../a" }, "version"},
		"no date":          {func(m *Manifest) { m.Built = 0 }, "built"},
		"a missing file":   {func(m *Manifest) { m.Files = m.Files[:2] }, "files are"},
		"a short sum":      {func(m *Manifest) { m.Files[0].SHA256 = "ab" }, "sha256"},
		"an empty file":    {func(m *Manifest) { m.Files[1].Size = 0 }, "size"},
		"a root too short": {func(m *Manifest) { m.Files[2].Size-- }, "with its hash tree"},
		"no root hash":     {func(m *Manifest) { m.Root.RootHash = "" }, "root_hash"},
		"a space in salt":  {func(m *Manifest) { m.Root.Salt = "00 1 sha256" }, "salt"},
		"one block":        {func(m *Manifest) { m.Root.DataBlocks = 1 }, "data_blocks"},
		"another SBOM":     {func(m *Manifest) { m.SBOM.Name = "../sbom.json" }, "name of sbom"},
		"an empty SBOM":    {func(m *Manifest) { m.SBOM.Size = 0 }, `size of "sbom.json"`},
		"a wrong SBOM sum": {func(m *Manifest) { m.SBOM.SHA256 = strings.Repeat("AB", 32) }, `sha256 of "sbom.json"`},
		"a component":      {func(m *Manifest) { m.Components[0].Version = "a b" }, "component"},
	} {
		m := valid()
		c.change(&m)
		if _, err := m.Encode(); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "cannot") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	raw, err := valid().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a member twice": strings.Replace(string(raw), `"format": 1,`, `"format": 1, "format": 1,`, 1),
		"a newer format": strings.Replace(string(raw), `"format": 1,`, `"format": 2, "more": 1,`, 1),
		"more behind it": string(raw) + "{}",
		"nothing":        "",
		"too much":       string(raw) + strings.Repeat(" ", MostManifest),
	} {
		if m, err := Decode([]byte(text)); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func TestSignature(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	public := key.Public().(ed25519.PublicKey)
	manifest := []byte("manifest")
	signature := Sign(key, manifest)
	if err := Verify(public, manifest, signature); err != nil {
		t.Error(err)
	}
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", 32)))
	for name, err := range map[string]error{
		"another manifest":        Verify(public, []byte("manifests"), signature),
		"another key":             Verify(other.Public().(ed25519.PublicKey), manifest, signature),
		"no signature":            Verify(public, manifest, nil),
		"no key":                  Verify(nil, manifest, signature),
		"one of the bare content": Verify(public, manifest, ed25519.Sign(key, manifest)),
	} {
		if err == nil {
			t.Errorf("%s: the signature holds", name)
		}
	}
	got, err := DecodeKey(EncodeKey(public))
	if err != nil || !got.Equal(public) {
		t.Errorf("the public key is %x, %v", got, err)
	}
	private, err := DecodePrivateKey(EncodePrivateKey(key))
	if err != nil || !private.Equal(key) {
		t.Errorf("the private key differs, %v", err)
	}
	if _, err := DecodeKey([]byte("AAAA")); err == nil {
		t.Error("a short key is read")
	}
	if _, err := DecodePrivateKey([]byte("?")); err == nil {
		t.Error("a private key of no base64 is read")
	}
}

func FuzzDecode(f *testing.F) {
	raw, err := valid().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Decode(raw)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if _, err := Decode(again); err != nil {
			t.Fatal(err)
		}
	})
}
