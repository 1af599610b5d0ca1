package disks

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/internal/guest"
)

// byID has links with names of disks that stay, as udev makes them (its rules 60-persistent-storage.rules).
const byID = "/dev/disk/by-id"

// mostID bounds a name, in bytes.
const mostID = 200

// ids are the names that a disk keeps wherever it is plugged in, the best first; at is its folder in sysfs.
func ids(at string) []string {
	var out []string
	add := func(kind, text string) {
		if text = clean(text); text != "" && len(text) <= mostID {
			out = append(out, kind+text)
		}
	}
	name := filepath.Base(at)
	switch {
	case strings.HasPrefix(name, "vd"):
		add("virtio-", guest.ReadText(at+"/serial"))
	case strings.HasPrefix(name, "nvme"):
		add("nvme-", guest.ReadText(at+"/wwid"))
		if serial := guest.ReadText(at + "/device/serial"); serial != "" {
			add("nvme-", guest.ReadText(at+"/device/model")+"_"+serial)
		}
	case strings.HasPrefix(name, "mmcblk"):
		if serial := guest.ReadText(at + "/device/serial"); serial != "" {
			add("mmc-", guest.ReadText(at+"/device/name")+"_"+serial)
		}
	default:
		if digits, ok := strings.CutPrefix(guest.ReadText(at+"/device/wwid"), "naa."); ok {
			add("wwn-0x", digits)
		}
		if serial := unitSerial(at + "/device/vpd_pg80"); serial != "" {
			kind := "scsi-"
			if guest.ReadText(at+"/device/vendor") == "ATA" {
				kind = "ata-"
			}
			add(kind, guest.ReadText(at+"/device/model")+"_"+serial)
		}
	}
	return out
}

// unitSerial reads the unit serial number page of SCSI (SPC-4, 7.8.17): four bytes of header, and text.
func unitSerial(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) < 4 || raw[1] != 0x80 {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(raw[4:]), "\x00"))
}

// clean makes a text a file's name: white space becomes an underscore, what isn't allowed goes.
func clean(text string) string {
	text = strings.Join(strings.Fields(text), "_")
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("#+-.:=@_", r) {
			return r
		}
		return -1
	}, text)
}

// Link makes the links of disks. Of two disks with the same name, as copies have it, the first one keeps it.
func Link(found []Disk) error {
	if err := os.MkdirAll(byID, 0o755); err != nil {
		return errors.Wrap(err, "cannot name disks")
	}
	for _, d := range found {
		for _, id := range d.IDs {
			at := filepath.Join(byID, id)
			if target, err := os.Readlink(at); err == nil && target == "../../"+d.Name {
				continue
			}
			if _, err := os.Stat(at); err == nil {
				continue // it leads to another disk that is there
			}
			_ = os.Remove(at) // it leads to a disk that has gone
			if err := os.Symlink("../../"+d.Name, at); err != nil {
				return errors.Wrap(err, "cannot name disks")
			}
		}
	}
	return nil
}
