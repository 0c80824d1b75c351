"""What do the others learn about any one record? Measurements, attacks, baselines and a report. Nothing is sent."""
