package document_test

import (
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// full is a document of almost half a MiB: begin, as many ones as fit, and end.
func full(begin, one, end string) []byte {
	const size = document.MostBytes / 8
	n := (size - len(begin) - len(end)) / (len(one) + 1)
	return []byte(begin + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + end)
}

// takes is how many bytes f allocates, all that it throws away counted.
func takes(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestHostileDocuments wants no document to take more than six times its own bytes
// beside them, however it is read.
func TestHostileDocuments(t *testing.T) {
	const most = 6 * document.MostBytes / 8
	long := `"` + strings.Repeat(`\u0041`, 80_000) + `"`
	for what, raw := range map[string][]byte{
		"empty entries":         full(`{"manifests":[`, `{}`, `]}`),
		"empty layers":          full(`{"layers":[`, `{}`, `]}`),
		"null layers":           full(`{"layers":[`, `null`, `]}`),
		"urls":                  full(`{"layers":[{"urls":[`, `""`, `]}]}`),
		"annotations":           full(`{"annotations":{`, `"":""`, `},"layers":[]}`),
		"annotations of layers": full(`{"layers":[{"annotations":{`, `"":""`, `}}]}`),
		"features":              full(`{"manifests":[{"platform":{"os.features":[`, `""`, `]}}]}`),
		"members":               full(`{`, `"a":0`, `}`),
		"layers again":          full(`{`, `"layers":[{}]`, `}`),
		"configs":               full(`{`, `"config":{}`, `}`),
		"descriptors' members":  full(`{"config":{`, `"size":1`, `}}`),
		"depth":                 []byte(strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)),
		"deep members":          []byte(`{"a":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `,"layers":[]}`),
		"a long text":           []byte(`{"mediaType":` + long + `}`),
		"a long digest":         []byte(`{"config":{"digest":` + long + `}}`),
		"history":               full(`{"history":[`, `{}`, `]}`),
		"variables":             full(`{"config":{"Env":[`, `""`, `]}}`),
		"words":                 full(`{"config":{"Cmd":[`, `""`, `]}}`),
		"labels":                full(`{"config":{"Labels":{`, `"":""`, `}}}`),
		"volumes":               full(`{"config":{"Volumes":{`, `"":{}`, `}}}`),
		"diffs":                 full(`{"rootfs":{"diff_ids":[`, `""`, `]}}`),
		"saved images":          full(`[`, `{}`, `]`),
		"saved layers":          full(`[{"Layers":[`, `""`, `]}]`),
		"too long":              make([]byte, document.MostBytes+1),
		"nothing":               nil,
		"a number":              []byte("1"),
		"half":                  []byte(`{"layers":[`),
	} {
		if len(raw) > document.MostBytes+1 {
			t.Fatalf("%s has %d bytes: it shows nothing", what, len(raw))
		}
		for as, read := range map[string]func() error{
			"manifest": func() error { _, err := document.Decode(raw, ""); return err },
			"config":   func() error { _, err := document.DecodeConfig(raw); return err },
			"saved":    func() error { _, err := document.DecodeSaved(raw); return err },
		} {
			var err error
			if took := takes(func() { err = read() }); took > most {
				t.Errorf("%s as a %s takes %d bytes, at most %d are wanted", what, as, took, most)
			}
			if err != nil && (!errors.Is(err, node.Invalid) || len(err.Error()) > 400) {
				t.Errorf("%s as a %s: %.500v", what, as, err)
			}
		}
	}
}

func TestTooManyEntriesAreCounted(t *testing.T) {
	for text, want := range map[string]string{
		`{"layers":[` + strings.Repeat(`{},`, 128) + `{}]}`:     "it has 129 layers, at most 128",
		`{"manifests":[` + strings.Repeat(`{},`, 1000) + `{}]}`: "it has 1001 entries, at most 1000",
		`{"layers":[],"layers":[]}`:                             "layers twice",
		`{"layers":[{"digest":1}]}`:                             "digest must be a string",
		`{"layers":{}}`:                                         "layers must be a list",
		`{"layers":[1]}`:                                        "descriptor must be an object",
		`{"config":{"size":1.5}}`:                               "size must be a whole number",
		`{"config":{"size":"1"}}`:                               "size must be a whole number",
		`{}`:                                                    "either manifests or",
		`{"mediaType":"text/html","layers":[]}`:                 "text/html",
		`{"mediaType":"` + ocispec.MediaTypeImageIndex + `","config":{}}`: "isn't what its media type says",
	} {
		_, err := document.Decode([]byte(text), "")
		if !errors.Is(err, node.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s answers %v, want %q", text, err, want)
		}
	}
}

// FuzzDecode wants the same result as encoding/json's.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"mediaType":"` + ocispec.MediaTypeImageManifest + `","config":{"mediaType":"a\u0062","digest":"sha256:1","size":12,"data":"AAAA"} , "layers" : [ {"urls":["x"],"size":-3}, {"platform":{"os":"linux","variant":"v8"}} ] }`))
	f.Add([]byte(`{"manifests":[{"platform":null},{"platform":{"architecture":"amd64","os":"linux"},"annotations":{"a":"]}\""}}]}`))
	f.Add([]byte(`{"architecture":"amd64","os":"linux","config":{"Env":["A=1","B=\"\\"],"Cmd":null,"User":"1:2"},"rootfs":{"type":"layers","diff_ids":["sha256:2"]},"history":[{"a":[{}]}]}`))
	f.Add([]byte(`[{"Config":"a.json","RepoTags":["x"],"Layers":["1.tar","2.tar"]}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if d, err := document.Decode(raw, ""); err == nil {
			var want struct {
				MediaType string               `json:"mediaType"`
				Manifests []ocispec.Descriptor `json:"manifests"`
				Config    *ocispec.Descriptor  `json:"config"`
				Layers    []ocispec.Descriptor `json:"layers"`
			}
			if json.Unmarshal(raw, &want) == nil && exact(raw) {
				same := func(a, b ocispec.Descriptor) bool {
					return a.Digest == b.Digest && a.Size == b.Size && a.MediaType == b.MediaType && len(a.URLs) > 0 == (len(b.URLs) > 0) && (a.Platform == nil) == (b.Platform == nil)
				}
				if d.MediaType != want.MediaType || !slices.EqualFunc(d.Layers, want.Layers, same) || !slices.EqualFunc(d.Manifests, want.Manifests, same) ||
					(d.Config == nil) != (want.Config == nil) || d.Config != nil && !same(*d.Config, *want.Config) {
					t.Errorf("%s\nis read as %+v\nwant %+v", raw, d, want)
				}
			}
		}
		if c, err := document.DecodeConfig(raw); err == nil {
			var want ocispec.Image
			if json.Unmarshal(raw, &want) == nil && exact(raw) {
				if c.OS != want.OS || c.Architecture != want.Architecture || !slices.Equal(c.Config.Env, want.Config.Env) || !slices.Equal(c.Config.Cmd, want.Config.Cmd) ||
					c.Config.User != want.Config.User || !slices.Equal(c.RootFS.DiffIDs, want.RootFS.DiffIDs) {
					t.Errorf("%s\nis read as %+v\nwant %+v", raw, c, want)
				}
			}
		}
		_, _ = document.DecodeSaved(raw)
	})
}

// exact reports whether encoding/json reads the names of raw as they are: it also
// takes them escaped and in any case.
func exact(raw []byte) bool {
	text := string(raw)
	lower := strings.ToLower(text)
	for _, name := range []string{"mediaType", "manifests", "config", "layers", "digest", "size", "urls", "platform", "os", "architecture", "rootfs", "diff_ids", "Env", "Cmd", "User"} {
		if strings.Count(lower, `"`+strings.ToLower(name)+`"`) != strings.Count(text, `"`+name+`"`) {
			return false
		}
	}
	return !strings.Contains(text, `\u`) && strings.IndexFunc(text, func(r rune) bool { return r > 127 }) < 0
}

func TestTheLimitIsTheConstant(t *testing.T) {
	if document.Bytes.Each != document.MostBytes {
		t.Errorf("the limit is %s, the constant %d", document.Bytes, document.MostBytes)
	}
}
