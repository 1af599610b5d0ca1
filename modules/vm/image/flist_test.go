package image

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/flisttest"
	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/flist"
	"github.com/croft-edge/croft/pkg/node"
)

// listed is version 1 as a flist, changed.
func (w *world) listed(change func(l *flisttest.List)) flisttest.List {
	l := w.listOf(made(w.t, "1"))
	change(&l)
	return l
}

// at is the file of a flist.
func at(l *flisttest.List, name string) *flisttest.File {
	return &l.Files[slices.IndexFunc(l.Files, func(f flisttest.File) bool { return f.Path == name })]
}

// What can't be an image is refused before a file of it is fetched, and nothing stays of it.
func TestHostileFlists(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *flisttest.List)
		says   string
	}{
		"no image.json":        {func(l *flisttest.List) { at(l, "image.json").Path = "x/image.json" }, "it has no image.json at its root"},
		"a folder image.json":  {func(l *flisttest.List) { at(l, "image.json").Path = "image.json/x" }, "its image.json is no regular file"},
		"a large image.json":   {func(l *flisttest.List) { at(l, "image.json").Content = strings.Repeat(" ", 64<<10+1) }, "its image.json has 65537 bytes, at most 65536 are allowed"},
		"a strange image.json": {func(l *flisttest.List) { at(l, "image.json").Content = `{"format": 2}` }, "cannot use image.json: cannot accept format: it is 2, must be 1"},
		"an empty image.json":  {func(l *flisttest.List) { at(l, "image.json").Content = "" }, "cannot use image.json"},
		"no initrd":            {func(l *flisttest.List) { at(l, "initrd").Path = "below/initrd" }, "it has no initrd at its root"},
		"a link": {func(l *flisttest.List) {
			*at(l, "initrd") = flisttest.File{Path: "initrd", Mode: unix.S_IFLNK | 0o777, Target: "/etc/passwd"}
		}, "its initrd is no regular file"},
		"a device":              {func(l *flisttest.List) { *at(l, "initrd") = flisttest.File{Path: "initrd", Mode: unix.S_IFBLK | 0o666} }, "its initrd is no regular file"},
		"a store of the node's": {func(l *flisttest.List) { l.Routes = append(l.Routes, flist.Route{Last: 255, URL: "dir:///etc"}) }, `its route "dir:///etc": allowed are http://, https:// and zdb://`},
		"no route":              {func(l *flisttest.List) { l.Routes = nil }, "none of its routes has block"},
		"too large": {func(l *flisttest.List) {
			l.Statements = []string{
				"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 8192) INSERT INTO block SELECT ino, id, key FROM n, block WHERE ino = (SELECT ino FROM inode WHERE name = 'initrd')",
				"UPDATE inode SET size = 8193 * 524288 WHERE name = 'initrd'",
			}
		}, "it has more than 4294967296 bytes"},
		"half a table": {func(l *flisttest.List) {
			l.Statements = []string{"UPDATE inode SET size = size + 524288 WHERE name = 'initrd'"}
		}, "they don't agree"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFlistWorld(t)
			first := w.push("0")
			m := w.open()
			must(t, w.round(m))
			w.put(w.listed(c.change), "kubernetes:1")
			w.registry.Forget()
			err := w.round(m)
			w.wantError(err, node.Refused, c.says)
			if pause := m.pauseAfter(err, 20); pause.Minutes() < 30 {
				t.Errorf("the next try is in %s", pause)
			}
			if seen := w.registry.Seen(); seen.Blobs > 1 {
				t.Errorf("it fetched %+v", seen)
			}
			w.boots(m, "0")
			w.has(first)
		})
	}
}

// Over HTTPS the flist and its blocks come from servers that the node trusts; plain servers are only those that are listed.
func TestFlistOverTLS(t *testing.T) {
	issuer := httptest.NewTLSServer(nil)
	certificate, trusted := issuer.TLS.Certificates, x509.NewCertPool()
	trusted.AddCert(issuer.Certificate())
	issuer.Close()
	server, err := flisttest.StartServer(&tls.Config{Certificates: certificate})
	must(t, err)
	w := worldOf(t, &world{registry: server.Registry, flists: server, lists: map[string]flisttest.Made{}})
	d := w.put(w.listed(func(l *flisttest.List) { l.Routes[0].URL = "https://" + server.Host + flisttest.Blobs }), "kubernetes:1")
	w.cfg.Registries.PlainHTTP = nil
	w.cfg.Source, err = ParseSource("https://" + server.Host + flistPath("kubernetes:1"))
	must(t, err)
	w.wantError(w.round(w.open()), node.Transient, "certificate")
	w.cfg.Registries.TLS = &tls.Config{RootCAs: trusted}
	m := w.open()
	must(t, w.round(m))
	w.boots(m, "1")
	w.has(d)
	w.put(w.listOf(made(t, "2")), "kubernetes:1") // its blocks are at a plain server
	w.wantError(w.round(m), node.Refused, "servers are asked over https only")
	w.boots(m, "1")
}

// What isn't a flist at all, or is too large for one, is refused; nothing stays of it.
func TestNoFlists(t *testing.T) {
	w := newFlistWorld(t)
	for says, raw := range map[string][]byte{
		"file is not a database":          []byte(strings.Repeat("no database ", 1000)),
		"it has no table inode":           {},
		"it has more than 33554432 bytes": make([]byte, flist.Bytes.Each+1),
	} {
		w.flists.PutFile(flistPath("kubernetes:1"), raw)
		m := w.open()
		err := w.round(m)
		w.wantError(err, node.Refused, says)
		w.rare(m, err)
		if left := w.entries(); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	}
}

// rare wants what has cost a download in vain to be tried again after a long pause.
func (w *world) rare(m *Images, err error) {
	w.t.Helper()
	if pause := m.pauseAfter(err, 1); pause < m.cfg.Times.Mistake.Base/2 {
		w.t.Errorf("%v is tried again after %s", err, pause)
	}
}

// A file whose bytes aren't what image.json says is refused, though each of its blocks is right.
func TestAFlistAndItsManifestDiffer(t *testing.T) {
	w := newFlistWorld(t)
	w.put(w.listed(func(l *flisttest.List) { at(l, "initrd").Content = "another" }), "kubernetes:1")
	m := w.open()
	w.wantError(w.round(m), node.Refused, "the bytes of initrd aren't those of its digest")
	if _, err := m.Current(); node.KindOf(err) != node.Transient {
		t.Errorf("VMs boot it: %v", err)
	}
}

// A pinned flist is that one or none, and isn't asked for again once it is here.
func TestPinnedFlist(t *testing.T) {
	w := newFlistWorld(t)
	second := w.push("2")
	first := w.push("1")
	w.cfg.Source = w.source("kubernetes:1@" + first)
	m := w.open()
	must(t, w.round(m))
	w.boots(m, "1")
	w.push("2")
	w.registry.Forget()
	must(t, w.round(m))
	m = w.open()
	must(t, w.round(m))
	w.boots(m, "1")
	if seen := w.registry.Seen(); seen.Requests != 0 {
		t.Errorf("of a pinned flist that is here the server was asked %+v", seen)
	}
	w.cfg.Source = w.source("kubernetes:1@sha256:" + strings.Repeat("0", 64))
	m = w.open()
	err := w.round(m)
	w.wantError(err, node.Refused, "its server answers with another digest: \""+second)
	w.rare(m, err)
	if _, err := m.Current(); node.KindOf(err) != node.Transient {
		t.Errorf("VMs boot another version than the pinned one: %v", err)
	}
}

// A server that lies, stalls or breaks: what was here stays, and once it is well again the image comes.
func TestLyingFlistServers(t *testing.T) {
	for name, c := range map[string]struct {
		faults imagetest.Faults
		kind   node.Kind
		says   string
	}{
		"other bytes": {otherBytes, node.Refused, "aren't those of its ID"},
		"fewer bytes": {fewerBytes, node.Refused, "aren't those of its ID"},
		"another flist": {imagetest.Faults{Change: func(path string, body []byte) []byte {
			if strings.HasSuffix(path, ".fl") {
				body = body[:len(body)/2]
			}
			return body
		}}, node.Refused, ""},
		"endless":                   {imagetest.Faults{Endless: true}, node.Refused, "it sends more than"},
		"cuts":                      {imagetest.Faults{CutAfter: 30_000}, node.Transient, "cannot fetch block"},
		"hangs":                     {imagetest.Faults{HangAfter: 30_000}, node.Transient, "said nothing for"},
		"redirects":                 {imagetest.Faults{Redirect: "http://10.0.0.1"}, node.Refused, "10.0.0.1"},
		"redirects to this machine": {imagetest.Faults{Redirect: "https://127.0.0.1:1"}, node.Refused, "127.0.0.1"},
		"has gone":                  {imagetest.Faults{Status: 404}, node.Invalid, "the server answers 404 Not Found"},
		"is busy":                   {imagetest.Faults{Status: 503}, node.Transient, "the server answers 503 Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newFlistWorld(t).survives(c.faults, c.kind, c.says)
		})
	}
}

// long is version 1 with an initrd of some blocks, and that.
func (w *world) long() (flisttest.List, string) {
	random := make([]byte, 3*flist.BlockSize+1000)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte("long"))).Read(random)
	a := made(w.t, "1")
	dir := w.t.TempDir()
	for i := range a.Files {
		if a.Files[i].Name == "initrd" {
			a.Files[i].Content = string(random)
		}
		must(w.t, os.WriteFile(filepath.Join(dir, a.Files[i].Name), []byte(a.Files[i].Content), 0o600))
	}
	describe(w.t, dir, "1")
	raw, err := os.ReadFile(filepath.Join(dir, "image.json"))
	must(w.t, err)
	l := w.listOf(a)
	at(&l, "image.json").Content = string(raw)
	return l, string(random)
}

// A half-fetched file is gone on with after its blocks that are right; nothing of it is fetched twice.
func TestFlistResume(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, part string)
		// blocks is how many of the four blocks are fetched again.
		blocks int
	}{
		"where it was":         {func(*testing.T, string) {}, 2},
		"half a block more":    {func(t *testing.T, part string) { must(t, os.Truncate(part, 2*flist.BlockSize+5000)) }, 2},
		"half a block less":    {func(t *testing.T, part string) { must(t, os.Truncate(part, flist.BlockSize+5000)) }, 3},
		"wrong bytes":          {func(t *testing.T, part string) { change(t, part, flist.BlockSize) }, 3},
		"wrong from the start": {func(t *testing.T, part string) { change(t, part, 0) }, 4},
		"too many bytes":       {func(t *testing.T, part string) { must(t, os.Truncate(part, 10<<20)) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFlistWorld(t)
			l, content := w.long()
			d := w.put(l, "kubernetes:1")
			// The third block breaks off: image.json and two blocks came before it.
			w.registry.Set(imagetest.Faults{Change: func(path string, body []byte) []byte {
				if w.registry.Seen().Blobs >= 3 && isFile(path, body) {
					body = body[1:]
				}
				return body
			}})
			w.wantError(w.round(w.open()), node.Refused, "aren't those of its ID")
			part := filepath.Join(w.cfg.Folder, fetchPrefix+d[len("sha256:"):], partPrefix+"initrd")
			if info, err := os.Stat(part); err != nil || info.Size() != 2*flist.BlockSize {
				t.Fatalf("of the file there is %+v, %v", info, err)
			}
			c.damage(t, part)
			w.registry.Set(imagetest.Faults{})
			w.registry.Forget()
			m := w.open()
			must(t, w.round(m))
			i, err := m.Current()
			must(t, err)
			if raw, err := os.ReadFile(i.Initrd); err != nil || string(raw) != content {
				t.Errorf("the file has %d bytes, %v", len(raw), err)
			}
			w.has(d)
			if seen, want := w.registry.Seen(), 1+c.blocks+2; seen.Blobs != want {
				t.Errorf("%d blocks were fetched, want %d", seen.Blobs, want)
			}
		})
	}
}

// change changes a byte of a file.
func change(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	must(t, err)
	_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
	must(t, err)
}

// An image comes from a zdb as well, beside a server of the other half of the blocks.
func TestFlistOfAZDB(t *testing.T) {
	w := newFlistWorld(t)
	z, err := flisttest.StartZDB(t.TempDir())
	must(t, err)
	t.Cleanup(func() { must(t, z.Close()) })
	w.cfg.Registries.Dialer = dialer(t, w.registry.Host, z.Host)
	l, _ := w.long()
	l.Routes = []flist.Route{{First: 0, Last: 127, URL: "zdb://:secret@" + z.Host + "/images"}, {First: 128, Last: 255, URL: "http://" + w.registry.Host + flisttest.Blobs}}
	d := w.put(l, "kubernetes:1")
	m := w.lists[keyOf(l)]
	low := maps.Clone(m.Blocks)
	maps.DeleteFunc(low, func(id flist.Hash, _ []byte) bool { return id[0] > 127 })
	if len(low) == 0 || len(low) == len(m.Blocks) {
		t.Fatalf("of %d blocks %d are for the zdb: this shows nothing", len(m.Blocks), len(low))
	}
	must(t, z.Put("images", "secret", low))
	for id := range low {
		w.flists.Remove(flisttest.Blobs + "/" + id.String()[:2] + "/" + id.String())
	}
	images := w.open()
	must(t, w.round(images))
	if i, err := images.Current(); err != nil || i.Digest != d || i.Version != "1" {
		t.Errorf("VMs boot %+v, %v", i, err)
	}
}
