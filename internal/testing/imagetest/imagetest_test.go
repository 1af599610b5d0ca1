package imagetest_test

import (
	"archive/tar"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/croft-edge/croft/internal/testing/imagetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names are the entries of an image's file system by path, as a container would see them.
func names(t *testing.T, image v1.Image) map[string]tar.Header {
	t.Helper()
	out := map[string]tar.Header{}
	r := mutate.Extract(image)
	defer r.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(t, err)
		out[strings.TrimSuffix(h.Name, "/")] = *h
	}
}

func sample() *imagetest.Builder {
	return imagetest.New().File("/etc/one", "1", 0o644).File("/etc/two", "2", 0o4755).Dir("/data", 0o700).
		Layer().Whiteout("/etc/one").Symlink("/three", "/etc/two").Device("/null", tar.TypeChar, 1, 3).
		Layer().Files("/many", 10).
		Config(func(c *v1.Config) { c.Entrypoint = []string{"/bin/x"}; c.User = "12:34"; c.StopSignal = "SIGINT" })
}

func TestImageContent(t *testing.T) {
	image, err := sample().Image()
	must(t, err)
	have := names(t, image)
	if _, ok := have["etc/one"]; ok {
		t.Error("the whiteout took nothing away")
	}
	if h := have["etc/two"]; h.Mode != 0o4755 {
		t.Errorf("mode is %o, want 4755", h.Mode)
	}
	if h := have["three"]; h.Linkname != "/etc/two" {
		t.Errorf("link says %q", h.Linkname)
	}
	if h := have["null"]; h.Typeflag != tar.TypeChar || h.Devmajor != 1 || h.Devminor != 3 {
		t.Errorf("device is %+v", h)
	}
	if _, ok := have["many/9"]; !ok {
		t.Error("there aren't many files")
	}
	config, err := image.ConfigFile()
	must(t, err)
	if config.Config.User != "12:34" || config.Config.StopSignal != "SIGINT" || config.OS != "linux" {
		t.Errorf("config is %+v", config)
	}
}

func TestImagesAreWrittenInEachForm(t *testing.T) {
	dir := t.TempDir()
	want, err := sample().Layout(filepath.Join(dir, "layout"))
	must(t, err)
	p, err := layout.FromPath(filepath.Join(dir, "layout"))
	must(t, err)
	image, err := p.Image(want)
	must(t, err)
	must(t, validate.Image(image))

	got, err := sample().Tar(filepath.Join(dir, "oci.tar"))
	must(t, err)
	if got != want {
		t.Errorf("digest in the tar is %s, in the folder %s: they aren't the same image", got, want)
	}
	out, err := exec.Command("tar", "tf", filepath.Join(dir, "oci.tar")).Output()
	must(t, err)
	if !strings.Contains(string(out), "blobs/sha256/"+want.Hex) {
		t.Errorf("the tar holds %s", out)
	}

	must(t, sample().Docker().DockerTar(filepath.Join(dir, "docker.tar"), "app:1"))
	saved, err := tarball.ImageFromPath(filepath.Join(dir, "docker.tar"), nil)
	must(t, err)
	if _, ok := names(t, saved)["etc/two"]; !ok {
		t.Error("the docker-save tar has no /etc/two")
	}
}

// The server runs on this machine as it does in a container.
func TestServerAnswers(t *testing.T) {
	image, err := imagetest.Server("-listen", "127.0.0.1:0").Image()
	must(t, err)
	program := filepath.Join(t.TempDir(), "server")
	r := mutate.Extract(image)
	defer r.Close()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		must(t, err)
		if "/"+h.Name == imagetest.ServerPath {
			b, err := io.ReadAll(tr)
			must(t, err)
			must(t, os.WriteFile(program, b, 0o755))
			break
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close())
	cmd := exec.Command(program, "-listen", address, "-say", "hello")
	var out strings.Builder
	cmd.Stdout = &out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	host, err := os.Hostname()
	must(t, err)
	if got := get(t, "http://"+address+"/"); got != host+"\n" {
		t.Errorf("it answers %q, want %q", got, host)
	}
	file := filepath.Join(t.TempDir(), "file")
	req, err := http.NewRequest(http.MethodPut, "http://"+address+"/write?path="+file, strings.NewReader("text"))
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	res.Body.Close()
	if got := get(t, "http://"+address+"/read?path="+file); got != "text" {
		t.Errorf("it reads %q", got)
	}
	if got := get(t, "http://"+address+"/list?path="+filepath.Dir(file)); got != "file\n" {
		t.Errorf("it lists %q", got)
	}
	if res, err := http.Post("http://"+address+"/exit?code=7", "", nil); err == nil {
		res.Body.Close()
	}
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("it ended with %v, want code 7", err)
		}
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatal("it doesn't exit")
	}
	if !strings.HasPrefix(out.String(), "hello\n") {
		t.Errorf("it said %q", out.String())
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; {
		res, err := http.Get(url)
		if err != nil && time.Now().Before(end) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		must(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		must(t, err)
		return string(b)
	}
}

func TestLayersArePackedAsAsked(t *testing.T) {
	image, err := imagetest.New().File("/a", "a", 0o644).Layer().Zstd().File("/b", "b", 0o644).Layer().Plain().File("/c", "c", 0o644).Image()
	must(t, err)
	layers, err := image.Layers()
	must(t, err)
	for i, want := range []struct{ media, magic string }{
		{"application/vnd.oci.image.layer.v1.tar+gzip", "\x1f\x8b"},
		{"application/vnd.oci.image.layer.v1.tar+zstd", "\x28\xb5\x2f\xfd"},
		{"application/vnd.oci.image.layer.v1.tar", "c\x00"},
	} {
		media, err := layers[i].MediaType()
		must(t, err)
		r, err := layers[i].Compressed()
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		if string(media) != want.media || !strings.HasPrefix(string(b), want.magic) {
			t.Errorf("layer %d is %s and begins with %x", i, media, b[:4])
		}
	}
}
