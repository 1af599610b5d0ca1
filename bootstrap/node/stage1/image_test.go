package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/guest/cmdline"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/internal/nodeimage/verity"
)

// dataBlocks are those of the image's root file system; its hash tree has two levels, the root's block first.
const dataBlocks = 130

func key(seed string) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(seed, ed25519.SeedSize)))
}

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }

// signedImage makes an image in a folder, signed by a key, with a root file system that has text in each of its blocks.
func signedImage(t *testing.T, key ed25519.PrivateKey, text string) string {
	t.Helper()
	folder := t.TempDir()
	put(t, folder, nodeimage.KernelFile, []byte("kernel"))
	put(t, folder, nodeimage.InitrdFile, []byte("initrd"))
	put(t, folder, nodeimage.RootFile, bytes.Repeat([]byte(text), dataBlocks*verity.BlockBytes)[:dataBlocks*verity.BlockBytes])
	tree, err := verity.Append(filepath.Join(folder, nodeimage.RootFile), []byte("salt"))
	if err != nil {
		t.Fatal(err)
	}
	m := nodeimage.Manifest{Format: nodeimage.Format, Version: "v1", Kernel: "6.1", Built: 1000, Root: tree}
	for _, name := range []string{nodeimage.KernelFile, nodeimage.InitrdFile, nodeimage.RootFile} {
		content := get(t, folder, name)
		sum := sha256.Sum256(content)
		m.Files = append(m.Files, nodeimage.File{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])})
	}
	// The SBOM isn't there: stage 1 needs none.
	m.SBOM = &nodeimage.File{Name: nodeimage.SBOMFile, Size: 1, SHA256: strings.Repeat("ab", 32)}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	put(t, folder, nodeimage.ManifestFile, raw)
	put(t, folder, nodeimage.SignatureFile, nodeimage.Sign(key, raw))
	return folder
}

func put(t *testing.T, folder, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, folder, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func drop(t *testing.T, folder, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(folder, name)); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, folder, name string, at int) {
	t.Helper()
	content := get(t, folder, name)
	content[at] ^= 1
	put(t, folder, name, content)
}

func TestSignedImage(t *testing.T) {
	ours := key("k")
	image, err := check(signedImage(t, ours, "root"), public(ours))
	if err != nil || image.Version != "v1" || image.Root.DataBlocks != dataBlocks {
		t.Errorf("%+v, %v", image, err)
	}
	if said, want := (found{device: "/dev/sr0", slot: "a"}).booted(image.Version, public(ours)), "the image is in slot a of /dev/sr0, version v1, signed"; said != want {
		t.Errorf("it says %q, want %q", said, want)
	}
}

// TestWrongImages holds that an image isn't booted where a key is built in, and why.
func TestWrongImages(t *testing.T) {
	ours := key("k")
	const notOurs = "its signature isn't of the key that is built in"
	for name, c := range map[string]struct {
		change func(folder string)
		want   string
	}{
		"another key's signature": {func(f string) {
			put(t, f, nodeimage.SignatureFile, nodeimage.Sign(key("x"), get(t, f, nodeimage.ManifestFile)))
		}, notOurs},
		"a signature of another image": {func(f string) {
			put(t, f, nodeimage.SignatureFile, get(t, signedImage(t, ours, "other"), nodeimage.SignatureFile))
		}, notOurs},
		"a changed signature": {func(f string) { flip(t, f, nodeimage.SignatureFile, 5) }, notOurs},
		"no signature":        {func(f string) { drop(t, f, nodeimage.SignatureFile) }, "cannot check the image's signature"},
		"an empty signature":  {func(f string) { put(t, f, nodeimage.SignatureFile, nil) }, "its signature has 0 bytes"},
		"a long signature": {func(f string) {
			put(t, f, nodeimage.SignatureFile, append(get(t, f, nodeimage.SignatureFile), 0))
		}, "its signature has 65 bytes"},
		"a manifest changed after signing": {func(f string) {
			put(t, f, nodeimage.ManifestFile, bytes.Replace(get(t, f, nodeimage.ManifestFile), []byte(`"v1"`), []byte(`"v2"`), 1))
		}, notOurs},
		"a manifest with more behind it": {func(f string) {
			put(t, f, nodeimage.ManifestFile, append(get(t, f, nodeimage.ManifestFile), '\n'))
		}, notOurs},
		"a signed file that is no manifest": {func(f string) {
			put(t, f, nodeimage.ManifestFile, []byte("{}"))
			put(t, f, nodeimage.SignatureFile, nodeimage.Sign(ours, []byte("{}")))
		}, "format is 0"},
		"no manifest":     {func(f string) { drop(t, f, nodeimage.ManifestFile) }, "cannot read the image"},
		"a huge manifest": {func(f string) { put(t, f, nodeimage.ManifestFile, make([]byte, nodeimage.MostManifest+1)) }, "at most"},
	} {
		t.Run(name, func(t *testing.T) { isRefused(t, signedImage(t, ours, "root"), c.change, c.want) })
	}
}

// TestWrongRoot holds that a root file system isn't used that isn't the signed manifest's.
func TestWrongRoot(t *testing.T) {
	const other = "isn't of this image: its hash tree has the root hash"
	for name, c := range map[string]struct {
		change func(folder string)
		want   string
	}{
		"no root": {func(f string) { drop(t, f, nodeimage.RootFile) }, "no such file"},
		"a longer root": {func(f string) {
			put(t, f, nodeimage.RootFile, append(get(t, f, nodeimage.RootFile), 0))
		}, "must be a file of"},
		"a shorter root": {func(f string) {
			content := get(t, f, nodeimage.RootFile)
			put(t, f, nodeimage.RootFile, content[:len(content)-verity.BlockBytes])
		}, "must be a file of"},
		"the root of another image": {func(f string) {
			put(t, f, nodeimage.RootFile, get(t, signedImage(t, key("k"), "other"), nodeimage.RootFile))
		}, other},
		"a changed hash tree": {func(f string) { flip(t, f, nodeimage.RootFile, dataBlocks*verity.BlockBytes) }, other},
		"a folder": {func(f string) {
			drop(t, f, nodeimage.RootFile)
			if err := os.Mkdir(filepath.Join(f, nodeimage.RootFile), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "must be a file of"},
	} {
		t.Run(name, func(t *testing.T) { isRefused(t, signedImage(t, key("k"), "root"), c.change, c.want) })
	}
}

// isRefused holds that an image is refused once it was changed, and that the error names why.
func isRefused(t *testing.T, folder string, change func(string), want string) {
	t.Helper()
	change(folder)
	image, err := check(folder, public(key("k")))
	if err == nil || !strings.HasPrefix(err.Error(), "cannot ") || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v, %v, want %q", image, err, want)
	}
}

// TestChangedByte holds that what stage 1 gives to dm-verity finds a changed byte anywhere in the root file system. veritysetup checks as
// the kernel does.
func TestChangedByte(t *testing.T) {
	ours := key("k")
	folder := signedImage(t, ours, "root")
	image, err := check(folder, public(ours))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, nodeimage.RootFile)
	verify := func() error {
		// The table: version, data and tree, sizes of their blocks, number of blocks of data, where the tree begins, and its hash.
		table := strings.Fields(image.Root.Table(file))
		out, err := exec.CommandContext(t.Context(), "veritysetup", "verify", table[1], table[2], table[8], "--no-superblock", "--hash="+table[7], //nolint:gosec // arguments of this test
			"--salt="+table[9], "--data-blocks="+table[5], fmt.Sprintf("--hash-offset=%d", image.Root.DataBlocks*verity.BlockBytes)).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 77 * verity.BlockBytes, dataBlocks*verity.BlockBytes - 1, (dataBlocks + 1) * verity.BlockBytes} {
		flip(t, folder, nodeimage.RootFile, at)
		if err := verify(); err == nil || strings.Contains(err.Error(), "not found") {
			t.Errorf("with byte %d changed: %v", at, err)
		}
		flip(t, folder, nodeimage.RootFile, at)
	}
}

// TestNoKey holds that where no key is built in an image is booted with anybody's signature or none, and that this is said.
func TestNoKey(t *testing.T) {
	folder := signedImage(t, key("x"), "root")
	for _, signed := range []bool{true, false} {
		if !signed {
			drop(t, folder, nodeimage.SignatureFile)
		}
		image, err := check(folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		if said, want := (found{folder: broughtFolder}).booted(image.Version, nil), "the image is in memory, version v1, not signed: no key is built in"; said != want {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
	flip(t, folder, nodeimage.RootFile, dataBlocks*verity.BlockBytes)
	if _, err := check(folder, nil); err == nil {
		t.Error("a root file system of another image is used")
	}
}

// TestBuiltInKey holds that only a missing file means that there is no key.
func TestBuiltInKey(t *testing.T) {
	folder, ours := t.TempDir(), public(key("k"))
	file := filepath.Join(folder, "image.pub")
	if got, err := builtInKey(file); err != nil || got != nil {
		t.Errorf("without a file the key is %x, %v", got, err)
	}
	put(t, folder, "image.pub", nodeimage.EncodeKey(ours))
	if got, err := builtInKey(file); err != nil || !got.Equal(ours) {
		t.Errorf("the key is %x, %v", got, err)
	}
	for _, text := range []string{"", "\n", "no key", "AAAA"} {
		put(t, folder, "image.pub", []byte(text))
		if got, err := builtInKey(file); err == nil {
			t.Errorf("of %q the key is %x", text, got)
		}
	}
	if got, err := builtInKey(folder); err == nil {
		t.Errorf("of a folder the key is %x", got)
	}
}

func TestChosenSlot(t *testing.T) {
	for text, want := range map[string]string{"": "a", "quiet croft.slot=a": "a", "croft.slot=b croft.trial": "b", "croft.slot=c": "", "croft.slot=../a": ""} {
		if got, err := chosenSlot(cmdline.Parse(text)); got != want || (err == nil) != (want != "") {
			t.Errorf("of %q the slot is %q, %v, want %q", text, got, err, want)
		}
	}
}
