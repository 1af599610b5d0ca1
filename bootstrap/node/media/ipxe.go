package media

import (
	"context"
	_ "embed" // the script
	"strings"
	"text/template"
)

//go:embed boot.ipxe.tmpl
var scriptText string

// writeScript writes boot.ipxe.
func (b *builder) writeScript(context.Context) error {
	script, err := template.New(Script).Parse(scriptText)
	if err != nil {
		return err
	}
	// Kernel and initrd come as such; the others are files of the initramfs.
	var placed []string
	for _, f := range b.image {
		if strings.HasPrefix(f.name, "root.") || strings.HasPrefix(f.name, "image.") {
			placed = append(placed, f.name)
		}
	}
	var out strings.Builder
	if err := script.Execute(&out, struct {
		Arguments string
		Placed    []string
	}{b.config.Arguments, placed}); err != nil {
		return err
	}
	_, err = b.write(Script, []byte(out.String()))
	return err
}
