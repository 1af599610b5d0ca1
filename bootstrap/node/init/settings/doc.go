// Package settings joins what the operator says of a booted node: the kernel's command line, the file of the partition croft-config,
// and the image's defaults, the first of which has the last word. Some settings are init's own; all others are croftd's, and go into the
// file that croftd reads. It decides only, and touches nothing.
package settings
