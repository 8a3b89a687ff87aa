"""Speed against peers and raw limits, as ratios of one run."""
