package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// Texts of the image's /etc. Root has no password: ssh takes keys only.
const (
	passwd = "root:*:0:0:root:/root:/bin/sh\n" +
		"nobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	group    = "root:x:0:\ntty:x:5:\ndisk:x:6:\nnogroup:x:65534:\n"
	shells   = "/bin/sh\n"
	hosts    = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	nsswitch = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"
)

// emptyFolders are the folders that the guest mounts on or that programs expect, and their modes.
func emptyFolders() map[string]fs.FileMode {
	return map[string]fs.FileMode{
		"/proc": 0o755, "/sys": 0o755, "/dev": 0o755, "/run": 0o755, "/tmp": fs.ModeSticky | 0o777, "/var": 0o755, "/mnt": 0o755,
		"/root": 0o700, "/etc/cni/net.d": 0o755, "/etc/kubernetes": 0o755, "/etc/containerd": 0o755, "/etc/dropbear": 0o755,
	}
}

// versions are those of the image and of what its programs ask for by version.
type versions struct {
	// image is the image's, as vmimage takes it; kubernetes begins with a v.
	image, kubernetes string
	// pause and coredns are tags of container images.
	pause, coredns string
}

// pauseImage and corednsImage are the names of the container images that the image brings.
func (v versions) pauseImage() string   { return "localhost/pause:" + v.pause }
func (v versions) corednsImage() string { return "localhost/coredns:" + v.coredns }

// imageEnv tells the guest's programs what the image has, a KEY=VALUE a line.
func (v versions) imageEnv() string {
	return fmt.Sprintf("KUBERNETES_VERSION=%s\nPAUSE_IMAGE=%s\nCOREDNS_IMAGE=%s\n", v.kubernetes, v.pauseImage(), v.corednsImage())
}

func (v versions) osRelease() string {
	return fmt.Sprintf("NAME=\"croft Kubernetes node\"\nID=croft-kubernetes\nID_LIKE=debian\nVERSION=%q\nVERSION_ID=%q\nPRETTY_NAME=%q\n",
		v.image, v.image, "croft Kubernetes node "+v.image)
}

// imageVersion joins the versions of Kubernetes and of croft to one as vmimage takes it: at most 64 letters, digits,
// dots, dashes, underscores and plus signs.
func imageVersion(kubernetes, croft string) string {
	allowed := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_+", r) {
			return r
		}
		return '-'
	}
	out := strings.TrimPrefix(kubernetes, "v") + "+" + strings.Map(allowed, croft)
	return out[:min(len(out), 64)]
}

// writeTexts writes the image's configuration, and makes its empty folders.
func writeTexts(r imagebuild.RootFolder, v versions) error {
	for name, content := range map[string]string{
		"/etc/passwd": passwd, "/etc/group": group, "/etc/shells": shells, "/etc/hosts": hosts, "/etc/nsswitch.conf": nsswitch,
		"/etc/os-release": v.osRelease(), "/usr/share/croft/image.env": v.imageEnv(),
	} {
		if err := r.File(name, content, 0o644); err != nil {
			return err
		}
	}
	for name, mode := range emptyFolders() {
		if err := r.Folder(name, mode); err != nil {
			return err
		}
	}
	return r.Link("/etc/mtab", "/proc/self/mounts")
}
