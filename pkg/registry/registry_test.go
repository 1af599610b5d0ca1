package registry_test

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/registry"
)

const scheme = "oci://"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for text, want := range map[string][3]string{ // text, host, digest
		"oci://example.org/a/b:1":                                {"oci://example.org/a/b:1", "example.org", ""},
		"oci://example.org:5000/a":                               {"oci://example.org:5000/a:latest", "example.org:5000", ""},
		"oci://example.org/a:1@" + digest:                        {"oci://example.org/a@" + digest, "example.org", digest},
		"oci://a":                                                {"oci://docker.io/library/a:latest", "docker.io", ""},
		"oci://":                                                 {},
		"docker://example.org/a:1":                               {},
		"oci://Example.org/A:1":                                  {},
		"oci://example.org/a@sha256:abc":                         {},
		"oci://example.org/a@sha512:" + digest[7:]:               {},
		"oci://user:password@example.org/a:1":                    {},
		"oci://example.org/a?b=c:1":                              {},
		"oci://example.org/" + strings.Repeat("a/", 200) + "a:1": {},
	} {
		r, err := registry.Parse(scheme, text)
		if got := [3]string{r.Text, r.Host(), r.Digest.String()}; got != want || (err == nil) != (want[0] != "") {
			t.Errorf("%s is %q, %v, want %q", text, got, err, want)
		}
	}
}

// open starts a registry with an image app:1, and opens it with the silence that it may keep.
func open(t *testing.T, silence time.Duration) (*imagetest.Registry, *registry.Repository, string) {
	t.Helper()
	server, err := imagetest.StartRegistry()
	must(t, err)
	t.Cleanup(func() { server.Close() })
	digest, err := imagetest.New().File("/a", strings.Repeat("a", 1<<16), 0o644).Push(t.Context(), server.Host+"/app:1", server.Behind())
	must(t, err)
	exception, err := dial.ParseException(server.Host)
	must(t, err)
	dialer, err := dial.New(dial.Config{Own: func() []netip.Prefix { return nil }, Allow: []dial.Exception{exception}, Log: zerolog.Nop()})
	must(t, err)
	c := fetch.Config{Dialer: dialer, PlainHTTP: []string{server.Host}, Silence: silence}
	must(t, c.Validate())
	ref, err := registry.Parse(scheme, scheme+server.Host+"/app:1")
	must(t, err)
	r, err := registry.New(c).Open(ref, "")
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return server, r, digest.String()
}

func TestResolveAndFetch(t *testing.T) {
	_, r, digest := open(t, time.Minute)
	desc, err := r.Resolve(t.Context())
	must(t, err)
	if desc.Digest.String() != digest || desc.MediaType != ocispec.MediaTypeImageManifest {
		t.Errorf("it is %+v, want %s", desc, digest)
	}
	body, err := r.Fetch(t.Context(), desc)
	must(t, err)
	defer body.Close()
	whole, err := io.ReadAll(body)
	must(t, err)
	if got := desc.Digest.Algorithm().FromBytes(whole); got != desc.Digest {
		t.Errorf("the manifest has %s, want %s", got, desc.Digest)
	}
	again, err := r.Fetch(t.Context(), desc)
	must(t, err)
	defer again.Close()
	_, err = again.(io.Seeker).Seek(10, io.SeekStart)
	must(t, err)
	if rest, err := io.ReadAll(again); err != nil || string(rest) != string(whole[10:]) {
		t.Errorf("from byte 10 on it is %q, %v", rest, err)
	}
}

func TestFaultsHaveKinds(t *testing.T) {
	server, r, _ := open(t, 300*time.Millisecond)
	for what, c := range map[string]struct {
		faults imagetest.Faults
		kind   node.Kind
		says   string
	}{
		"nothing is said":   {imagetest.Faults{Silent: true}, node.Transient, ""},
		"a busy registry":   {imagetest.Faults{Status: 503}, node.Transient, "answers Service Unavailable"},
		"a closed registry": {imagetest.Faults{Status: 403}, node.Refused, "answers Forbidden"},
		"no such image":     {imagetest.Faults{Status: 404}, node.Invalid, "has no such image"},
		"a password":        {imagetest.Faults{User: "me", Password: "secret"}, node.Refused, "answers Unauthorized"},
	} {
		server.Set(c.faults)
		_, err := r.Resolve(t.Context())
		if node.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "cannot pull oci://") {
			t.Errorf("%s: %v (%s), want %s and %q", what, err, node.KindOf(err), c.kind, c.says)
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []fetch.Config{{}, {Dialer: &dial.Dialer{}, Silence: -1}} {
		if err := c.Validate(); node.KindOf(err) != node.Invalid {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
