package disks

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/croft-edge/croft/internal/guest"
)

// ids are the names of a disk that stay, as the rules of udev make them (60-persistent-storage.rules), the best first: what the maker
// has given it in the world before its serial number.
func ids(at, name string) []string {
	device := filepath.Join(at, "device")
	var out []string
	switch {
	case strings.HasPrefix(name, "vd"):
		out = []string{join("virtio-", guest.ReadText(filepath.Join(at, "serial")))}
	case strings.HasPrefix(name, "nvme"):
		out = []string{
			join("nvme-", guest.ReadText(filepath.Join(at, "wwid"))),
			join("nvme-", guest.ReadText(filepath.Join(device, "model")), guest.ReadText(filepath.Join(device, "serial"))),
		}
	case strings.HasPrefix(name, "mmcblk"):
		out = []string{join("mmc-", guest.ReadText(filepath.Join(device, "name")), guest.ReadText(filepath.Join(device, "serial")))}
	default:
		out = scsiIDs(device)
	}
	out = slices.DeleteFunc(out, func(id string) bool { return id == "" })
	slices.Sort(out[min(1, len(out)):])
	return slices.Compact(out)
}

// mostID bounds a name, in bytes: a file's name has 255.
const mostID = 200

// join makes a name of its parts; empty where one is missing.
func join(kind string, parts ...string) string {
	for i, part := range parts {
		// As util_replace_whitespace of udev: no space at the ends, one _ for spaces in between.
		parts[i] = strings.Join(strings.Fields(part), "_")
		if parts[i] == "" {
			return ""
		}
	}
	id := kind + strings.Map(allowed, strings.Join(parts, "_"))
	if len(id) > mostID {
		return ""
	}
	return id
}

// allowed replaces what udev doesn't let into names of devices.
func allowed(r rune) rune {
	const also = "#+-.:=@_"
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(also, r) {
		return r
	}
	return '_'
}

// Designators of a device, in the vital product data of SCSI (SPC-4, 7.8.6).
const (
	vendorDesignator = 0
	t10Designator    = 1
	euiDesignator    = 2
	naaDesignator    = 3
)

// ataVendor is the vendor of a disk that is behind a translation from ATA; its designator has its model and its serial number.
const (
	ataVendor = "ATA"
	ataModel  = 40
	t10Vendor = 8
)

// scsiIDs are the names of a SCSI, SATA or USB disk.
func scsiIDs(device string) []string {
	vendor, model := guest.ReadText(filepath.Join(device, "vendor")), guest.ReadText(filepath.Join(device, "model"))
	page, _ := os.ReadFile(filepath.Join(device, "vpd_pg83"))
	var wide, out []string
	for _, d := range designators(page) {
		text := string(d.value)
		switch {
		case d.kind == naaDesignator:
			wide = append(wide, "wwn-0x"+hex.EncodeToString(d.value))
			out = append(out, "scsi-3"+hex.EncodeToString(d.value))
		case d.kind == euiDesignator:
			out = append(out, "scsi-2"+hex.EncodeToString(d.value))
		case d.kind == t10Designator && vendor == ataVendor && len(text) > t10Vendor+ataModel:
			out = append(out, join("ata-", text[t10Vendor:t10Vendor+ataModel], text[t10Vendor+ataModel:]))
		case d.kind == t10Designator:
			out = append(out, join("scsi-1", text))
		case d.kind == vendorDesignator:
			out = append(out, join("scsi-0"+strings.Map(allowed, strings.Join(strings.Fields(vendor), "_"))+"_", model, text))
		}
	}
	if serial := unitSerial(device); serial != "" {
		if vendor == ataVendor {
			// The kernel's model is cut at 16 characters, so this is another name than udev's, and only the last resort.
			if len(out) == 0 {
				out = append(out, join("ata-", model, serial))
			}
		} else {
			out = append(out, join("scsi-S", vendor, model, serial))
		}
	}
	if serial := usbSerial(device); serial != "" {
		out = append(out, join("usb-", vendor, model, serial))
	}
	return append(wide, out...)
}

type designator struct {
	kind  byte
	value []byte
}

// designators are those of the disk itself in page 0x83; others are of its port or target.
func designators(page []byte) []designator {
	const head, most = 4, 64
	if len(page) < head || page[1] != 0x83 {
		return nil
	}
	var out []designator
	for rest := page[head:]; len(rest) >= head && len(out) < most; {
		size := int(rest[3])
		if len(rest) < head+size {
			break
		}
		if association := rest[1] >> 4 & 3; association == 0 && size > 0 {
			out = append(out, designator{rest[1] & 0xf, rest[head : head+size]})
		}
		rest = rest[head+size:]
	}
	return out
}

// unitSerial is the serial number in page 0x80.
func unitSerial(device string) string {
	page, _ := os.ReadFile(filepath.Join(device, "vpd_pg80"))
	const head = 4
	if len(page) < head || page[1] != 0x80 {
		return ""
	}
	return strings.TrimSpace(strings.Trim(string(page[head:min(len(page), head+int(page[3]))]), "\x00"))
}

// usbSerial is the serial number of the USB device that a disk is behind.
func usbSerial(device string) string {
	dir, err := filepath.EvalSymlinks(device)
	if err != nil {
		return ""
	}
	for ; len(dir) > 1; dir = filepath.Dir(dir) {
		if guest.ReadText(filepath.Join(dir, "idVendor")) != "" {
			return guest.ReadText(filepath.Join(dir, "serial"))
		}
	}
	return ""
}
