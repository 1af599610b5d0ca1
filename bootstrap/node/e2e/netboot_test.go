//go:build boot

package e2e_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/pkg/workload"
)

// iPXE is Debian's, for BIOS.
const iPXE = "/boot/ipxe.lkrn"

// TestNetworkBoot has iPXE fetch the image and its script from a server, as a machine without a boot medium does. After a power cut it boots the same
// way, is the same node, and its workloads run.
func TestNetworkBoot(t *testing.T) {
	s := newSite(t)
	st := newStory(s, options{boot: machine.Boot{Kernel: iPXE}, bootFile: s.serveImage()})
	st.begin()
	st.n.m.Until(patience, "the image is in memory")
	st.p.note("before the power cut")
	st.n.m.Cut(st.random)
	st.n.m.PowerOn()
	st.n.agent()
	st.p.answers()
	st.p.noted("before the power cut")
	for _, r := range st.p.all() {
		s.Result(r, workload.StateOK)
	}
	st.n.settled(st.counts)
	st.end()
}

// serveImage serves the image's folder, with a script that tells the kernel the clock, and returns the script's address.
func (s *site) serveImage() string {
	s.Helper()
	raw, err := os.ReadFile(filepath.Join(*image, "boot.ipxe"))
	s.must(err)
	clock, err := vmguest.SteadyClock()
	s.must(err)
	script := strings.Replace(string(raw), "\nset args ", "\nset args "+clock+" ", 1)
	if script == string(raw) {
		s.Fatalf("the script has no line with arguments:\n%s", raw)
	}
	files := http.NewServeMux()
	files.Handle("/", http.FileServer(http.Dir(*image)))
	files.HandleFunc("/boot.ipxe", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(script)) })
	s.serve(hubIP+":80", files)
	return "http://" + hubIP + "/boot.ipxe"
}
