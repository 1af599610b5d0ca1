package bench

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

const (
	// bombHost is the enemy's address, bombRegistry the registry there.
	bombHost     = "203.0.113.66"
	bombRegistry = bombHost + ":5000"
	// bombers are the hostile users, one for each of the attack's goroutines.
	bombers = 4
	// bombDocument is the largest document that a node reads, in bytes, as registries must accept that
	// size.
	bombDocument = 4 << 20
	// bombUnpacked is the unpacked size of a packed layer of some MiB, in bytes: more than an image may
	// have.
	bombUnpacked = 2 << 30
	// bombFiles is how many files such a layer has, more than an image may have.
	bombFiles = 1_100_000
	// bombImage is the operator's limit for an image: the most disk that this benchmark fills.
	bombImage = "512MiB"
	// bombPatience is how long the node may take to refuse the remaining bombs when the attack ends.
	bombPatience = 2 * time.Minute

	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// bombs are images that are small to send and expensive to read, with the users who reserve them.
type bombs struct {
	e       *enemy
	bombers [bombers]sign.KeyPair
	next    atomic.Uint64
	kinds   []string
	// documents and blobs are the registry's content: documents by tag and by digest, blobs by digest.
	documents map[string]document
	blobs     map[string][]byte

	mu      sync.Mutex
	refused map[string]refusal
}

type document struct {
	kind string
	raw  []byte
}

func newBombs(e *enemy) *bombs {
	e.b.Helper()
	b := &bombs{e: e, documents: map[string]document{}, blobs: map[string][]byte{}, refused: map[string]refusal{}}
	full := func(begin, one, end string) []byte {
		n := (bombDocument - len(begin) - len(end)) / (len(one) + 1)
		return []byte(begin + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + end)
	}
	b.document("many-layers", manifestType, full(`{"schemaVersion":2,"layers":[`, `{}`, `]}`))
	b.document("many-entries", indexType, full(`{"schemaVersion":2,"manifests":[`, `{}`, `]}`))
	b.document("many-annotations", manifestType, full(`{"schemaVersion":2,"annotations":{`, `"":""`, `},"layers":[]}`))
	b.document("deep", manifestType, bytes.Repeat([]byte("["), bombDocument))
	b.image("config", full(`{"history":[`, `{}`, `]}`), []byte("no layer"))
	b.image("zeros", nil, b.zeros())
	b.image("files", nil, b.files())
	var l net.Listener
	err := netns.Do(e.host.Path(), func() (err error) {
		l, err = net.Listen("tcp", bombRegistry)
		return err
	})
	if err != nil {
		e.b.Fatal(err)
	}
	server := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	e.b.Cleanup(func() { _ = server.Close() })
	return b
}

func (b *bombs) document(name, kind string, raw []byte) {
	b.kinds = append(b.kinds, name)
	b.documents[name], b.documents[digestOf(raw)] = document{kind, raw}, document{kind, raw}
}

// image makes an image of one layer. A nil config is replaced by one for this machine.
func (b *bombs) image(name string, config, layer []byte) {
	if config == nil {
		config = fmt.Appendf(nil, `{"os":"linux","architecture":%q,"rootfs":{"type":"layers","diff_ids":["sha256:%064d"]}}`, runtime.GOARCH, 0)
	}
	describe := func(kind string, raw []byte) map[string]any {
		digest := digestOf(raw)
		b.blobs[digest] = raw
		return map[string]any{"mediaType": kind, "digest": digest, "size": len(raw)}
	}
	raw, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": describe(configType, config), "layers": []any{describe(layerType, layer)},
	})
	if err != nil {
		b.e.b.Fatal(err)
	}
	b.document(name, manifestType, raw)
}

func digestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// zeros is a layer of one file of zeros: its end repeats one packed block.
func (b *bombs) zeros() []byte {
	const block = 16 << 20
	head := b.packed(func(w *tar.Writer) error {
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Mode: 0o644, Size: bombUnpacked})
	})
	var one bytes.Buffer
	w := gzip.NewWriter(&one)
	if _, err := w.Write(make([]byte, block)); err != nil {
		b.e.b.Fatal(err)
	}
	_ = w.Close()
	return append(head, bytes.Repeat(one.Bytes(), bombUnpacked/block)...)
}

// files is a layer with more empty files than an image may have.
func (b *bombs) files() []byte {
	return b.packed(func(w *tar.Writer) error {
		for k := range bombFiles {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("f/%d", k), Mode: 0o644}); err != nil {
				return err
			}
		}
		return nil
	})
}

// packed is a gzip member of write's output, without a tar's end.
func (b *bombs) packed(write func(w *tar.Writer) error) []byte {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		err = write(tar.NewWriter(w))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		b.e.b.Fatal(err)
	}
	return out.Bytes()
}

// ServeHTTP is the enemy's registry.
func (b *bombs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	raw, kind := b.blobs[name], "application/octet-stream"
	if strings.Contains(r.URL.Path, "/manifests/") {
		raw, kind = b.documents[name].raw, b.documents[name].kind
		w.Header().Set("Docker-Content-Digest", digestOf(raw))
	}
	if raw == nil && r.URL.Path != "/v2/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
}

// arm gives each bomber a network, which a container needs before its image is fetched.
func (b *bombs) arm() {
	b.e.b.Helper()
	for k := range b.bombers {
		user, err := sign.Generate()
		if err != nil {
			b.e.b.Fatal(err)
		}
		b.bombers[k] = user
		network := b.e.i.Push(b.e.i.Networks(user, "net1", b.e.i.Part(b.e.n, "10.1.2.0/24", uint16(3003+k), ""))[0])
		b.e.i.Result(network, workload.StateOK)
	}
}

// bomb reserves a container of a bomb, and waits until the node has refused it. After too many
// refusals, a bomber must wait before the next. When the attack ends, the node gets some time, without
// the other attacks, for kinds of which it has refused none yet.
func (e *enemy) bomb(ctx context.Context) error {
	k := e.bombs.next.Add(1)
	kind := e.bombs.kinds[k%uint64(len(e.bombs.kinds))]
	r := e.i.ContainerOf(e.bombs.bombers[k%bombers], e.n, func(c *workload.Container) {
		c.FList = "docker://" + bombRegistry + "/bomb:" + kind
		c.Network.IPs = []net.IP{net.IPv4(10, 1, 2, byte(20+k%200)).To4()}
	})
	id, err := e.i.Client.Reserve(ctx, r)
	if err != nil {
		return err
	}
	began, ended := time.Now(), time.Time{}
	for ; ended.IsZero() || time.Since(ended) < bombPatience && !e.bombs.wasRefused(kind); time.Sleep(500 * time.Millisecond) {
		if ended.IsZero() && ctx.Err() != nil {
			ended = time.Now()
		}
		shown, err := e.i.Client.Get(e.b.Context(), id)
		if err == nil && shown.Result != nil {
			e.bombs.note(kind, time.Since(began), shown.Result)
			return nil
		}
	}
	if slices.Contains(layerBombs(), kind) || e.bombs.wasRefused(kind) {
		fmt.Printf("BOMB %-18s waits or is unpacked for %s\n", kind, time.Since(began).Round(time.Second))
		return nil
	}
	e.b.Errorf("the image bomb %s isn't refused after %s, %s of them without other attacks", kind, time.Since(began), bombPatience)
	return nil
}

func (b *bombs) wasRefused(kind string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused[kind].times > 0
}

// layerBombs are the kinds that may take the time limit of a layer: 900 seconds of a processor. Making
// a million files takes a disk minutes.
func layerBombs() []string { return []string{"zeros", "files"} }

// refusal counts the refusals of one kind of bomb.
type refusal struct {
	times   int
	longest time.Duration
	why     string
}

func (b *bombs) note(kind string, took time.Duration, result *workload.Result) {
	if result.State == workload.StateOK {
		b.e.b.Errorf("the image bomb %s was taken", kind)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.refused[kind]
	_, why, _ := strings.Cut(result.Error, ": ")
	b.refused[kind] = refusal{r.times + 1, max(r.longest, took), why}
}

// tell prints the outcome of the bombs.
func (b *bombs) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, kind := range b.kinds {
		if r := b.refused[kind]; r.times > 0 {
			fmt.Printf("BOMB %-18s refused %d times, after at most %s: %s\n", kind, r.times, r.longest.Round(100*time.Millisecond), r.why)
		}
	}
}
