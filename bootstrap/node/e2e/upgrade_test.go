//go:build boot

package e2e_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/bootstrap/node/media"
	"github.com/croft-edge/croft/internal/initrd"
	"github.com/croft-edge/croft/internal/nodeimage"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/pkg/fileid"
)

// imageServer is HOST:PORT of the server with images.
const imageServer = hubIP + ":8081"

// shelf makes signed images, and serves the one that is offered.
type shelf struct {
	*site
	key ed25519.PrivateKey
	// stage1 is the program of stage 1.
	stage1 []byte

	mu      sync.Mutex
	offered http.Handler
	// asked counts the requests for each file.
	asked map[string]int
}

func newShelf(s *site) *shelf {
	s.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	s.must(err)
	s.Logf("images are signed by %s", strings.TrimSpace(string(nodeimage.EncodeKey(public))))
	program := s.Path("stage1")
	cmd := exec.CommandContext(s.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "github.com/croft-edge/croft/bootstrap/node/stage1")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	stage1, err := os.ReadFile(program)
	s.must(err)
	sh := &shelf{site: s, key: private, stage1: stage1, offered: http.NotFoundHandler(), asked: map[string]int{}}
	web := &http.Server{Handler: sh, ReadHeaderTimeout: time.Minute}
	listener := s.Hub.ListenTCP(imageServer)
	go func() { _ = web.Serve(listener) }()
	s.Cleanup(func() { web.Close() })
	return sh
}

func (sh *shelf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sh.mu.Lock()
	sh.asked[strings.TrimPrefix(r.URL.Path, "/")]++
	offered := sh.offered
	sh.mu.Unlock()
	offered.ServeHTTP(w, r)
}

func (sh *shelf) offer(folder string) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.offered = http.FileServer(http.Dir(folder))
}

func (sh *shelf) count(file string) int {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.asked[file]
}

// image makes a signed image like the one under test, of a version, which is newer by age, with stage1 as its first program. It returns its folder.
func (sh *shelf) image(version string, age int64, stage1 []byte) string {
	sh.Helper()
	folder := sh.Path("image-" + version)
	for _, name := range []string{nodeimage.KernelFile, nodeimage.RootFile, nodeimage.InitrdFile} {
		sh.must(machine.Copy(filepath.Join(folder, name), filepath.Join(*image, name)))
	}
	// Of archives in a row the later ones' files replace those of the earlier ones.
	added, err := initrd.PackFiles(stage1, []initrd.File{{Path: "image.pub", Content: nodeimage.EncodeKey(sh.key.Public().(ed25519.PublicKey))}})
	sh.must(err)
	begun, err := os.ReadFile(filepath.Join(folder, nodeimage.InitrdFile))
	sh.must(err)
	begun = append(begun, make([]byte, -len(begun)&3)...)
	sh.must(os.WriteFile(filepath.Join(folder, nodeimage.InitrdFile), append(begun, added...), 0o644))

	raw, err := os.ReadFile(filepath.Join(*image, nodeimage.ManifestFile))
	sh.must(err)
	manifest, err := nodeimage.Decode(raw)
	sh.must(err)
	manifest.Version, manifest.Built = version, manifest.Built+age
	sh.sign(folder, manifest)
	return folder
}

// sign writes the manifest of the image in a folder, with the sums of its files, and signs it.
func (sh *shelf) sign(folder string, manifest nodeimage.Manifest) {
	sh.Helper()
	for i, f := range manifest.Files {
		sum, err := fileid.Sum(filepath.Join(folder, f.Name))
		sh.must(err)
		info, err := os.Stat(filepath.Join(folder, f.Name))
		sh.must(err)
		manifest.Files[i].Size, manifest.Files[i].SHA256 = info.Size(), sum
	}
	raw, err := manifest.Encode()
	sh.must(err)
	sh.must(os.WriteFile(filepath.Join(folder, nodeimage.ManifestFile), raw, 0o644))
	sh.must(os.WriteFile(filepath.Join(folder, nodeimage.SignatureFile), nodeimage.Sign(sh.key, raw), 0o644))
}

// disk makes croft.img of the image in a folder.
func (sh *shelf) disk(folder string) string {
	sh.Helper()
	clock, err := vmguest.SteadyClock()
	sh.must(err)
	sh.must(media.Build(sh.Context(), media.Config{Folder: folder, Arguments: "quiet panic=1 cryptomgr.notests " + clock}))
	return filepath.Join(folder, media.Disk)
}

// boot is one boot of a node.
type boot struct {
	id, line string
}

func (n *node) boot() boot {
	n.s.Helper()
	return boot{n.hand.file("/proc/sys/kernel/random/boot_id"), n.hand.file("/proc/cmdline")}
}

// is reports whether an argument is on the kernel's command line.
func (b boot) is(argument string) bool {
	return strings.Contains(" "+strings.TrimSpace(b.line)+" ", " "+argument+" ")
}

// upgrade has the node look for another image, install it, and start again, until the node is ready in another boot.
func (n *node) upgrade() boot {
	n.s.Helper()
	return n.upgradeWithin(patience)
}

func (n *node) upgradeWithin(limit time.Duration) boot {
	n.s.Helper()
	was, began := n.boot(), time.Now()
	n.orderUpgrade()
	n.startsAgain(was, limit)
	n.s.Logf("the node is ready again %s after the order to upgrade", since(began))
	return n.boot()
}

// startsAgain waits until the node is ready in another boot.
func (n *node) startsAgain(was boot, limit time.Duration) {
	n.s.Helper()
	n.s.within(limit, "the node is ready in another boot", func() error {
		id, err := n.hand.try(http.MethodGet, "/file?path=/proc/sys/kernel/random/boot_id", nil)
		switch {
		case err != nil:
			return err
		case string(id) == was.id:
			return errors.New("the old boot still runs")
		}
		if is, ready := n.hand.ready(); !ready {
			return fmt.Errorf("it answers %s", is)
		}
		return nil
	})
}

func (n *node) orderUpgrade() {
	n.s.Helper()
	_, err := n.hand.tryRun("init", "upgrade")
	n.s.must(err)
}

// refuses holds that the node looks at the image that is offered, and leaves it alone.
func (n *node) refuses(sh *shelf) {
	n.s.Helper()
	was := sh.count(nodeimage.RootFile)
	// One look comes after the other: when the second begins, the first has ended.
	for range 2 {
		looks := sh.count(nodeimage.ManifestFile)
		n.orderUpgrade()
		n.s.until("the node looks for an image", func() error {
			if sh.count(nodeimage.ManifestFile) == looks {
				return errors.New("it hasn't yet")
			}
			return nil
		})
	}
	if now := sh.count(nodeimage.RootFile); now != was {
		n.s.Errorf("the node has fetched an image that it knows not to boot: %d requests, before %d", now, was)
	}
}

// upgradable boots a node that gets its images from a shelf, and has a tenant on it.
func upgradable(t *testing.T) (*shelf, *node, *place) {
	t.Helper()
	s := newSite(t)
	sh := newShelf(s)
	n := s.node("n1", "203.0.113.11", options{
		boot: machine.Boot{Image: sh.disk(sh.image("first", 0, sh.stage1)), Writable: true},
		more: "upgrade: http://" + imageServer + "/\n",
	})
	n.m.PowerOn()
	n.register()
	p := newTenant(s, n).places[0]
	p.answers()
	p.note("before the upgrade")
	return sh, n, p
}

// TestUpgrade offers a node an image that doesn't boot, and then one that does.
func TestUpgrade(t *testing.T) {
	sh, n, p := upgradable(t)
	sh.offer(sh.image("broken", 1, []byte("no program")))
	if b := n.upgrade(); !b.is("croft.slot=a") || b.is("croft.trial") {
		t.Errorf("after an image that doesn't boot the node runs with %s, want the old image in slot a", b.line)
	}
	n.m.Until(patience, "Kernel panic")
	n.m.Until(patience, "the last new image didn't become ready")
	p.answers()
	p.noted("before the upgrade")
	n.refuses(sh)

	sh.offer(sh.image("next", 2, sh.stage1))
	if b := n.upgrade(); !b.is("croft.slot=b") || !b.is("croft.trial") {
		t.Errorf("after a good image the node runs with %s, want a trial of slot b", b.line)
	}
	n.m.Until(patience, "the new image is ready, and is kept")
	p.answers()
	p.noted("before the upgrade")
	n.settled(map[string]int64{"network": 1, "volume": 1, "container": 1, "zdb": 1})
	n.hand.sync()
	n.m.Cut(sh.random)
	n.m.PowerOn()
	n.agent()
	if b := n.boot(); !b.is("croft.slot=b") || b.is("croft.trial") {
		t.Errorf("after a power cut the node runs with %s, want the new image in slot b", b.line)
	}
	p.answers()
	p.noted("before the upgrade")
	// An older image is valid, but would bring its faults back.
	sh.offer(sh.image("older", -1, sh.stage1))
	n.refuses(sh)
}
