package main_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/resources/host"
	"github.com/croft-edge/croft/pkg/resources/registry"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// s3Place is where the node of a world of secrets reaches the S3 server.
const s3Place = "203.0.113.1:9000"

// secretWorld is a node with every secret that a node of these tests can have, by what each is. The key of the door's certificate isn't among them: the
// process makes it at its start, and has it in its memory alone.
type secretWorld struct {
	*zdbs
	secrets map[string][]byte
	// known are words that the node shows of the same workloads.
	known []string
	// keyFiles are files in which a given key must not be.
	keyFiles []string
	// mirror is the folder of a mirror, own the node's key.
	mirror string
	own    sign.KeyPair
}

// newSecretWorld makes the node: its seed, the state's key and the keys of the S3 server are the operator's.
func newSecretWorld(t *testing.T) *secretWorld {
	t.Helper()
	own, errs := sign.Generate()
	recovery, err := sign.Generate()
	if errs != nil || err != nil {
		t.Fatal(errs, err)
	}
	stateKey := bytes.Repeat([]byte("Zq\x01\xfe9~pQ"), 4)
	folder, mirror := t.TempDir(), t.TempDir()
	files := map[string]string{"node-seed": string(sign.EncodeSeed(own)), "state-key": hex.EncodeToString(stateKey) + "\n"}
	maps.Copy(files, s3test.Known())
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	server := s3test.New(t)
	z := newZDBs(t, "--secrets-dir", folder, "--recovery-key", recovery.ID(), "--mirrors", "fs://"+filepath.Join(mirror, "store"),
		"--mirrors", "s3://"+s3Place+"/"+s3test.Bucket+"?path-style=true&tls=false")
	relay(z.Hub.ListenTCP(s3Place), server.Address)
	if z.n.ID != own.ID() {
		t.Fatalf("it is node %s, whose seed isn't the given one, of %s", z.n.ID, own.ID())
	}
	return &secretWorld{zdbs: z, secrets: map[string][]byte{
		"the node's seed": own.Seed(), "the state's key": stateKey, "the private recovery key": recovery.Seed(), "the user's seed": z.User.Seed(),
		"the S3 server's access key": []byte(s3test.Access), "the S3 server's secret key": []byte(s3test.Secret),
		"the network's key": unbase64(t, z.part.Private), "the network's key as users write it": []byte(z.part.Private),
	}, keyFiles: []string{filepath.Join(z.n.StateDir(), "identity", "seed"), filepath.Join(z.n.StateDir(), "state.key")}, mirror: mirror, own: own}
}

// relay connects those who come to a listener with an address, until the listener is closed.
func relay(from net.Listener, address string) {
	go func() {
		for {
			in, err := from.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(way[0], way[1])
					_ = way[0].Close()
				}()
			}
		}
	}()
}

func unbase64(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// work deploys workloads with secrets, some of which fail, and waits until the mirrors have all.
func (s *secretWorld) work() {
	s.Helper()
	const inEnv, inZDB, unusable = "Env-7f3kQx/+w==s3cr3t", "Zdb-Pa55word-9xW+/=q", "Wrong-Pa55-4kLm=+/zz"
	s.secrets["a container's variable"], s.secrets["a namespace's password"], s.secrets["a password that is refused"] = []byte(inEnv), []byte(inZDB), []byte(unusable+"\n")
	box, url := s.run(func(c *workload.Container) {
		c.SecretEnv = map[string]string{"TOKEN": s.SealEnv(s.n, s.User, "TOKEN", inEnv)}
		c.Env = map[string]string{"OPEN": "to all"}
	})
	mentions(s, "the container's environment", s.shell.MustGet(url+"/env"), "TOKEN="+inEnv+"\n")
	space, at := s.made(password(inZDB))
	s.answers(s.inside(at, inZDB), "PONG", "PING")
	other := s.Push(s.ZDB(s.n, password(unusable+"\n")))
	s.Result(other, workload.StateError)
	s.exit(url, 3) // what drifts is told and logged
	s.Until(back, "the node has told that the container ended", func() bool { return strings.Contains(events(s.World, s.n), box.ID) })
	s.Until(nodetest.Soon, "the mirrors have everything", func() bool {
		mirrors := s.n.Status().Mirrors
		return len(mirrors) == 2 && !slices.ContainsFunc(mirrors, func(m host.MirrorSpec) bool { return !m.Up || !m.Complete || m.Lag != 0 })
	})
	s.secrets["the mirror's data key"] = s.dataKey()
	s.known = []string{box.ID, space.ID, s.net.ID}
}

// dataKey opens the key with which the mirror in a folder is sealed.
func (s *secretWorld) dataKey() (key []byte) {
	s.Helper()
	err := filepath.WalkDir(s.mirror, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if at := bytes.LastIndex(raw, []byte(`{"machine":`)); err == nil && at >= 0 {
			var document struct{ Node []byte }
			if json.NewDecoder(bytes.NewReader(raw[at:])).Decode(&document) == nil && document.Node != nil {
				key, err = s.own.Open(document.Node)
			}
		}
		return err
	})
	if err != nil || len(key) != 32 {
		s.Fatalf("the mirror's data key has %d bytes, %v", len(key), err)
	}
	return key
}

// shown is all that the node shows, by how it is asked.
func (s *secretWorld) shown() map[string]string {
	s.Helper()
	run := func(args ...string) string {
		out, err := exec.CommandContext(s.Context(), s.Croft, args...).CombinedOutput()
		if err != nil {
			s.Fatalf("croft %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	state, debug := filepath.Join(s.n.RunDir(), "state.sock"), filepath.Join(s.n.RunDir(), "debug.sock")
	out := map[string]string{
		"croft dump": run("dump", "--debug-socket", debug), "croft dump -o json": run("dump", "--debug-socket", debug, "-o", "json"),
		"croft get events": events(s.World, s.n), "croftd status -o json": s.n.Croftd("status", "-o", "json"), "the log": s.n.Output(),
	}
	for _, each := range registry.Types() {
		name := each.ResourceDefinition().Type
		for _, form := range []string{"yaml", "json"} {
			out["croft get "+name+" -o "+form] = run("get", name, "--state-socket", state, "-o", form)
		}
	}
	for _, path := range []string{"/metrics", "/readyz"} {
		text, err := s.Get(s.n.Namespace, "http://"+s.n.Address()+path, 20*time.Second)
		if err != nil {
			s.Fatalf("%s: %v", path, err)
		}
		out[path] = text
	}
	return out
}

// forms are the texts in which a secret could be shown. In base64 it may be followed by something else, and then its last group differs.
func forms(secret []byte) map[string]string {
	whole, octal := secret[:len(secret)-len(secret)%3], make([]string, len(secret))
	numbers := fmt.Sprintf("%d", secret)
	for i, c := range secret {
		octal[i] = fmt.Sprint(c)
	}
	quoted := fmt.Sprintf("%q", secret)
	return map[string]string{
		"raw": string(secret), "quoted": quoted[1 : len(quoted)-1], "hex": hex.EncodeToString(secret), "HEX": strings.ToUpper(hex.EncodeToString(secret)),
		"base64": base64.StdEncoding.EncodeToString(whole), "base64 of URLs": base64.URLEncoding.EncodeToString(whole),
		"numbers": numbers[1 : len(numbers)-1], "a list": strings.Join(octal, ","), "a YAML list": "- " + strings.Join(octal, "\n- "),
	}
}

// search returns the places that show a text.
func search(shown map[string]string, text string) (where []string) {
	for place, has := range shown {
		if strings.Contains(has, text) {
			where = append(where, place)
		}
	}
	slices.Sort(where)
	return where
}

// TestNoSecretIsShown: the dump, every type of resources, the log and the metrics show no secret in any form, although they show the workloads whose
// secrets they are.
func TestNoSecretIsShown(t *testing.T) {
	s := newSecretWorld(t)
	s.work()
	shown := s.shown()
	for what, secret := range s.secrets {
		for form, text := range forms(secret) {
			if where := search(shown, text); len(where) > 0 {
				t.Errorf("%s (%s) is in %q", what, form, where)
			}
		}
	}
	for _, word := range s.known {
		where := search(shown, word)
		for _, place := range []string{"croft dump", "croft dump -o json", "croft get Workloads.croft -o yaml", "croftd status -o json", "the log"} {
			if !slices.Contains(where, place) {
				t.Errorf("the ID %s isn't in %s: the search finds nothing there", word, place)
			}
		}
	}
	for form, text := range forms([]byte("a secret that is shown")) {
		if len(search(map[string]string{"x": "before " + text + " after"}, text)) != 1 {
			t.Errorf("what is shown as %s isn't found", form)
		}
	}
	for _, path := range s.keyFiles {
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("a key that the operator gives is in %s (%v)", path, err)
		}
	}
	mentions(t, "the metrics", shown["/metrics"], "croft_ready")
}
