package vm

import (
	"cmp"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/ceiling"
	"github.com/croft-edge/croft/cmd/croftd/internal/cell"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/module"
	"github.com/croft-edge/croft/modules/vm/image"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/flist/database"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodestatus"
)

// imageFolder is the folder of fetched images, in state-dir.
const imageFolder = "kubernetes-image"

func imageSource(text string) error {
	_, err := image.ParseSource(text)
	return err
}

// openImages opens the image of Kubernetes VMs. inUse are the files that VMs have.
func openImages(h module.Host, inUse func() ([]string, bool)) (*image.Images, error) {
	cfg, err := imageConfig(h.Config, h.Log)
	if err != nil {
		return nil, err
	}
	cfg.InUse, cfg.Registries.Dialer = inUse, h.Dialer
	return image.Open(cfg)
}

// imageConfig is the configuration of the image, without its dialer.
func imageConfig(c config.Config, log zerolog.Logger) (image.Config, error) {
	source, err := image.ParseSource(c.Texts[kubernetes])
	return image.Config{
		Source: source, Folder: filepath.Join(c.StateDir, imageFolder), Registries: fetch.Config{PlainHTTP: c.Containers.PlainHTTP},
		Flists: database.Reader{Command: []string{"/proc/self/exe", "read-flist"}, Confine: ceiling.ConfineUnpack(c, log)}, Log: log,
	}, err
}

// imageProblem is what an operator should know of the image; empty when all is well.
func imageProblem(i node.VMImageStatus) string {
	switch {
	case i.State == node.VMImageFailed && i.Version == "":
		return "no image for Kubernetes VMs: " + cell.Printable(i.Error)
	case i.State == node.VMImageFailed:
		return "Kubernetes VMs boot image " + i.Version + ", a newer one can't be had: " + cell.Printable(i.Error)
	case i.State == node.VMImageFetching && i.Version == "":
		return "the image for Kubernetes VMs is being fetched: " + fetched(i)
	}
	return ""
}

// fetched is how much of a version is here.
func fetched(i node.VMImageStatus) string {
	switch {
	case i.State != node.VMImageFetching:
		return "-"
	case i.Total == 0:
		return "its size isn't known yet"
	}
	return cell.MiB(i.Done) + " of " + cell.MiB(i.Total)
}

func imageMetric() module.Metric {
	return module.Metric{Name: "croft_vm_image", Help: "1 while there is an image that Kubernetes VMs boot", Read: func(s nodestatus.Status, value module.Value) {
		value(module.Truth(s.VMImage.Version != ""))
	}}
}

// writeImage prints the image of a node that is given one.
func writeImage(row module.Row, i node.VMImageStatus) {
	if i.State == "" || i.State == node.VMImageNone {
		return
	}
	row("")
	row("VM IMAGE", "STATE", "VERSION", "DIGEST", "FETCHED", "NEXT TRY", "CAUSE")
	row(cell.Printable(i.Reference), i.State, cmp.Or(i.Version, "-"), cmp.Or(cell.Digest(i.Digest), "-"), fetched(i), cell.Time(i.Next), cell.Printable(cmp.Or(i.Error, "-")))
}
