package main

import (
	"fmt"
	"io/fs"

	"github.com/croft-edge/croft/bootstrap/internal/imagebuild"
)

// Texts of the image's /etc. Nobody can log in.
const (
	passwd = "root:*:0:0:root:/root:/bin/sh\n" +
		"_chrony:*:100:100:chrony:/var/lib/chrony:/usr/sbin/nologin\n" +
		"nobody:*:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	group    = "root:x:0:\ntty:x:5:\ndisk:x:6:\n_chrony:x:100:\nkvm:x:101:\nnogroup:x:65534:\n"
	shells   = "/bin/sh\n"
	hosts    = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	nsswitch = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n"
)

// emptyFolders are the folders that are mounted on or that programs expect, and their modes.
func emptyFolders() map[string]fs.FileMode {
	return map[string]fs.FileMode{
		"/proc": 0o755, "/sys": 0o755, "/dev": 0o755, "/run": 0o755, "/tmp": fs.ModeSticky | 0o777, "/boot": 0o755, "/mnt": 0o755, "/state": 0o755,
		"/root": 0o700, "/opt": 0o755, "/var/lib": 0o755, "/var/log": 0o755, "/var/tmp": fs.ModeSticky | 0o777,
		// The folders that the node's state is bound to.
		"/var/lib/croft": 0o755, "/var/lib/containerd": 0o755, "/var/lib/init": 0o755,
		"/var/lib/chrony": 0o755,
		// AppArmor's files include it, and Debian's package has nothing in it.
		"/etc/apparmor.d/tunables/xdg-user-dirs.d": 0o755,
	}
}

// links are the links to what is made when the machine runs.
func links() map[string]string {
	return map[string]string{
		"/etc/resolv.conf": "/run/resolv.conf", "/etc/croft": "/run/config", "/etc/mtab": "/proc/self/mounts", "/var/run": "/run", "/var/lock": "/run/lock",
	}
}

// osRelease describes the image to programs; BUILT is the date of croft's programs, in seconds since 1970: a
// clock before it is wrong. It isn't that of the packages: croft's engine compares its clock with its own date too, and init sets a clock that is
// decades behind to a day before, which has to stay wrong in the engine's eyes.
func osRelease(version string, built int64) string {
	return fmt.Sprintf("NAME=\"croft node\"\nID=croft\nID_LIKE=debian\nVERSION=%q\nVERSION_ID=%q\nPRETTY_NAME=%q\nBUILT=%d\n",
		version, version, "croft node "+version, built)
}

// writeTexts writes the image's configuration, and makes its empty folders and its links. release is the text of os-release.
func writeTexts(r imagebuild.RootFolder, release string) error {
	texts := map[string]string{
		"/etc/passwd": passwd, "/etc/group": group, "/etc/shells": shells, "/etc/hosts": hosts, "/etc/nsswitch.conf": nsswitch, "/etc/os-release": release,
	}
	for name, content := range texts {
		if err := r.File(name, content, 0o644); err != nil {
			return err
		}
	}
	for name, mode := range emptyFolders() {
		if err := r.Folder(name, mode); err != nil {
			return err
		}
	}
	for name, target := range links() {
		if err := r.Link(name, target); err != nil {
			return err
		}
	}
	return nil
}
