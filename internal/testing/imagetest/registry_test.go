package imagetest_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/croft-edge/croft/internal/testing/imagetest"
)

func start(t *testing.T) *imagetest.Registry {
	t.Helper()
	r, err := imagetest.StartRegistry()
	must(t, err)
	t.Cleanup(func() { r.Close() })
	return r
}

func pull(t *testing.T, r *imagetest.Registry, options ...remote.Option) error {
	t.Helper()
	ref, err := name.ParseReference(r.Host + "/app:1")
	must(t, err)
	image, err := remote.Image(ref, append(options, remote.WithContext(t.Context()), remote.WithRetryBackoff(remote.Backoff{Steps: 1, Duration: time.Millisecond}))...)
	if err != nil {
		return err
	}
	return validate.Image(image)
}

func TestRegistryServesPushedImage(t *testing.T) {
	r := start(t)
	_, err := sample().Push(t.Context(), r.Host+"/app:1")
	must(t, err)
	r.Forget()
	must(t, pull(t, r))
	if s := r.Seen(); s.Blobs < 4 || s.Requests <= s.Blobs || s.BlobBytes == 0 {
		t.Errorf("seen is %+v", s)
	}
}

func TestRegistryAsksForCredentials(t *testing.T) {
	for _, token := range []bool{false, true} {
		r := start(t)
		_, err := sample().Push(t.Context(), r.Host+"/app:1")
		must(t, err)
		r.Set(imagetest.Faults{User: "me", Password: "secret", Token: token})
		if err := pull(t, r); err == nil {
			t.Error("it serves who has no password")
		}
		must(t, pull(t, r, remote.WithAuth(&authn.Basic{Username: "me", Password: "secret"})))
	}
}

func TestRegistryMisbehaves(t *testing.T) {
	for what, f := range map[string]imagetest.Faults{
		"cut":    {CutAfter: 10},
		"status": {Status: http.StatusServiceUnavailable},
		"lies": {Change: func(_ string, b []byte) []byte {
			return append([]byte{}, b[:len(b)-1]...)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			r := start(t)
			_, err := sample().Push(t.Context(), r.Host+"/app:1")
			must(t, err)
			r.Set(f)
			if err := pull(t, r); err == nil {
				t.Error("a pull succeeds")
			}
			r.Set(imagetest.Faults{})
			must(t, pull(t, r))
		})
	}
}

func TestRegistryHangsAndResumes(t *testing.T) {
	r := start(t)
	digest, err := sample().Push(t.Context(), r.Host+"/app:1")
	must(t, err)
	image, err := remote.Image(reference(t, r, digest))
	must(t, err)
	layers, err := image.Layers()
	must(t, err)
	blob, err := layers[0].Digest()
	must(t, err)
	size, err := layers[0].Size()
	must(t, err)

	r.Set(imagetest.Faults{HangAfter: 10, Times: 1})
	client := &http.Client{Timeout: 2 * time.Second}
	res, err := client.Get("http://" + r.Host + "/v2/app/blobs/" + blob.String())
	must(t, err)
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err == nil || len(b) != 10 {
		t.Errorf("%d bytes and error %v, want 10 bytes and then nothing", len(b), err)
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+r.Host+"/v2/app/blobs/"+blob.String(), nil)
	must(t, err)
	req.Header.Set("Range", "bytes=10-")
	res, err = client.Do(req)
	must(t, err)
	defer res.Body.Close()
	rest, err := io.ReadAll(res.Body)
	must(t, err)
	if res.StatusCode != http.StatusPartialContent || int64(len(rest)) != size-10 {
		t.Errorf("status %d and %d bytes, want %d", res.StatusCode, len(rest), size-10)
	}
}

func reference(t *testing.T, r *imagetest.Registry, digest v1.Hash) name.Reference {
	t.Helper()
	ref, err := name.ParseReference(r.Host + "/app@" + digest.String())
	must(t, err)
	return ref
}

func TestRegistryNeverEndsABlob(t *testing.T) {
	r := start(t)
	digest, err := sample().Push(t.Context(), r.Host+"/app:1")
	must(t, err)
	image, err := remote.Image(reference(t, r, digest))
	must(t, err)
	layers, err := image.Layers()
	must(t, err)
	blob, err := layers[0].Digest()
	must(t, err)
	r.Set(imagetest.Faults{Endless: true})
	res, err := http.Get("http://" + r.Host + "/v2/app/blobs/" + blob.String())
	must(t, err)
	defer res.Body.Close()
	if n, err := io.CopyN(io.Discard, res.Body, 10<<20); err != nil {
		t.Errorf("it ended after %d bytes: %v", n, err)
	}
}

func TestArtifact(t *testing.T) {
	r := start(t)
	a := imagetest.Artifact{Type: "application/x", Files: []imagetest.ArtifactFile{{Name: "one", Content: "content of one"}, {Name: "two", Content: ""}}}
	digest, err := a.Push(t.Context(), r.Host+"/files:1", r.Behind())
	must(t, err)
	ref, err := name.ParseReference(r.Host + "/files@" + digest.String())
	must(t, err)
	image, err := remote.Image(ref)
	must(t, err)
	m, err := image.Manifest()
	must(t, err)
	if len(m.Layers) != 2 || m.Layers[0].Annotations["org.opencontainers.image.title"] != "one" || m.Layers[1].Size != 0 {
		t.Errorf("its manifest is %+v", m)
	}
	res, err := http.Get("http://" + r.Host + "/v2/files/blobs/" + m.Layers[0].Digest.String())
	must(t, err)
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "content of one" {
		t.Errorf("its first file is %q, %v", body, err)
	}
}
