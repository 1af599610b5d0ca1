// Package slots installs another image beside the running one, and decides which of them boots.
//
// A boot medium has two slots for images. The running image is never written to: another one is fetched into the other slot, checked
// whole, and tried once. GRUB forgets the trial before it boots it, so whatever becomes of it, the next boot is the old image, unless
// the node was ready on the new one and has said so here. An image whose trial has failed isn't tried again.
//
// It owns the folder croft and the file boot/grub/grubenv of the boot medium, and keeps there:
//
//	croft/a, croft/b       the images
//	croft/trial.json       the trial that is under way: its slot and the image
//	croft/failed.json      images whose trials have failed
package slots
