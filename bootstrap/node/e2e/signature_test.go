//go:build boot

package e2e_test

import (
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/internal/nodeimage"
)

// What a console shows: once init of the root file system runs, and once stage 1 has given up.
const (
	initRuns = "init runs"
	givesUp  = "the machine starts again in"
)

// packedTime is a byte of the time in the superblock of root.squashfs: nothing but its hash is wrong when it is changed.
const packedTime = 8

// TestSignature boots a signed image from one medium, on which one thing after the other is wrong: stage 1 says why it doesn't boot, and
// init doesn't run. What was signed boots.
func TestSignature(t *testing.T) {
	s := newSite(t)
	sh := newShelf(s)
	b := sh.bootDisk("v1")
	for _, c := range []struct {
		medium string
		change func()
		want   string
	}{
		{"another's signature", func() {
			_, other, err := ed25519.GenerateKey(nil)
			s.must(err)
			b.put(nodeimage.SignatureFile, nodeimage.Sign(other, b.signed[nodeimage.ManifestFile]))
		}, "cannot boot: cannot use an image: its signature isn't of the key that is built in"},
		{"no signature", func() {
			s.must(machine.RemoveBoot(s.Context(), b.disk, b.path(nodeimage.SignatureFile)))
		}, "cannot boot: cannot check the image's signature: "},
		{"a changed byte in the root file system", func() {
			b.restore(nodeimage.SignatureFile)
			changed := append([]byte(nil), b.signed[nodeimage.RootFile]...)
			changed[packedTime] ^= 1
			b.put(nodeimage.RootFile, changed)
		}, "cannot boot: cannot mount the root file system: it isn't the image's, or damaged"},
		{"as it was signed", func() { b.restore(nodeimage.RootFile) }, "version v1, signed"},
	} {
		c.change()
		console := b.boot()
		if !strings.Contains(console, c.want) {
			t.Errorf("%s: the console doesn't show %q:\n%s", c.medium, c.want, console)
		}
		if runs, want := strings.Contains(console, initRuns), !strings.HasPrefix(c.want, "cannot"); runs != want {
			t.Errorf("%s: init runs: %v, want %v:\n%s", c.medium, runs, want, console)
		}
	}
}

// bootDisk is a machine that boots from a disk with a signed image, whose files are changed while it is off.
type bootDisk struct {
	*site
	m    *machine.Machine
	disk string
	// signed are files of the image as they were signed.
	signed map[string][]byte
}

func (sh *shelf) bootDisk(version string) *bootDisk {
	sh.Helper()
	folder := sh.image(version, 0, sh.stage1)
	b := &bootDisk{site: sh.site, disk: sh.disk(folder), signed: map[string][]byte{}}
	for _, name := range []string{nodeimage.ManifestFile, nodeimage.SignatureFile, nodeimage.RootFile} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		sh.must(err)
		b.signed[name] = content
	}
	b.m = machine.New(sh.TB, machine.Config{Name: "m", Dir: sh.Path("m"), Keep: *keep, MemoryMiB: 1024, Boot: machine.Boot{Image: b.disk}})
	return b
}

// path is that of a file of the image on the disk.
func (b *bootDisk) path(name string) string {
	return "/" + nodeimage.SlotFolder(nodeimage.Slots()[0]) + "/" + name
}

// put changes a file of the image on the disk.
func (b *bootDisk) put(name string, content []byte) {
	b.Helper()
	file := b.Path("changed")
	b.must(os.WriteFile(file, content, 0o600))
	b.must(machine.ReplaceBoot(b.Context(), b.disk, b.path(name), file))
}

// restore undoes put.
func (b *bootDisk) restore(name string) {
	b.Helper()
	b.put(name, b.signed[name])
}

// boot switches the machine on, and off as soon as it is known what becomes of the boot. It returns the console.
func (b *bootDisk) boot() string {
	b.Helper()
	b.m.PowerOn()
	console := ""
	b.until("init runs, or stage 1 gives up", func() error {
		if console = b.m.Console(); strings.Contains(console, initRuns) || strings.Contains(console, givesUp) {
			return nil
		}
		if !b.m.Running() {
			b.Fatal("the machine is off")
		}
		return errors.New("neither is on the console")
	})
	b.m.Cut(b.random)
	return console
}
